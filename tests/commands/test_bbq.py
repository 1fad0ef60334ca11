"""`rldf eval`: a run's folder as before, and BBQ for any model or file of predictions."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pyarrow.parquet as pq
import pytest

import rldf_ray
from rldf_ray.evaluate.bbq.run import default_out
from rldf_ray.evaluate.bbq.run_models import SCENES
from rldf_ray.sets.bbq.data import load_bbq
from tests.commands.conftest import Rldf

ITEMS = load_bbq(SCENES, ["Age", "Beauty"]).items


def given(folder: Path, *rows: dict[str, Any]) -> str:
    path = folder / "mine.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def right(category: str) -> list[dict[str, Any]]:
    return [
        {"category": i.category, "example_id": i.example_id, "prediction": i.options[i.label]}
        for i in ITEMS
        if i.category == category
    ]


def test_predictions_are_scored_on_the_categories_in_the_file(rldf: Rldf, tmp_path: Path) -> None:
    path = given(tmp_path, *right("Age")[1:])
    status, out, err = rldf("eval", "bbq", "--predictions", path, "--bbq", str(SCENES), "--json")
    summary = json.loads(out)
    assert (status, err) == (0, "")
    assert list(summary["categories"]) == ["Age"]
    assert summary["missing"] == summary["unparsed"]["number"] == 1
    assert summary["overall"]["accuracy"] == pytest.approx(31 / 32)
    rows = pq.read_table(tmp_path / "runs/bbq/mine-predictions/eval/bbq.parquet").to_pylist()
    assert [row["prediction"] for row in rows][:2] == [None, ITEMS[1].label]


def test_predictions_are_scored_on_the_items_that_a_file_names(rldf: Rldf, tmp_path: Path) -> None:
    named = [*right("Age")[2:12], *right("Beauty")[:4]]
    (tmp_path / "hard.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in named), encoding="utf-8"
    )
    path = given(tmp_path, *right("Age")[:8])
    options = ("--bbq", str(SCENES), "--only", str(tmp_path / "hard.jsonl"), "--json")
    status, out, err = rldf("eval", "bbq", "--predictions", path, *options)
    summary = json.loads(out)
    assert "4 items of" in err and "mine.jsonl says nothing about: they are not scored" in err
    assert status == 0 and summary["set"]["items"] == 10 and summary["missing"] == 4
    assert summary["overall"]["accuracy"] == pytest.approx(6 / 10)
    # Beside those of all items.
    assert (tmp_path / "runs/bbq/mine-predictions-hard/eval/bbq.json").exists()
    assert not (tmp_path / "runs/bbq/mine-predictions").exists()


def test_a_subset_without_items_is_named(rldf: Rldf, tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").write_text("", encoding="utf-8")
    (tmp_path / "others.jsonl").write_text(json.dumps(right("Beauty")[0]) + "\n", encoding="utf-8")
    path = given(tmp_path, *right("Age")[:8])
    options = ("--bbq", str(SCENES), "--predictions", path, "--only")
    status, _, err = rldf("eval", "bbq", *options, str(tmp_path / "none.jsonl"))
    assert status != 0 and "none.jsonl: no line in it" in err
    status, _, err = rldf("eval", "bbq", *options, str(tmp_path / "others.jsonl"))
    assert status != 0 and "others.jsonl: none of its 1 items is of the categories in" in err
    # Refused before the model is looked for.
    missing = str(tmp_path / "no-model")
    status, _, err = rldf(
        "eval", "bbq", missing, *options[:2], "--only", str(tmp_path / "none.jsonl")
    )
    assert status != 0 and "none.jsonl: no line in it" in err


def test_an_index_in_quotes_is_told(rldf: Rldf, tmp_path: Path) -> None:
    rows = [{**row, "prediction": "2"} for row in right("Age")]
    path = given(tmp_path, *rows)
    status, out, err = rldf("eval", "bbq", "--predictions", path, "--bbq", str(SCENES), "--json")
    assert status == 0 and json.loads(out)["unparsed"]["number"] == len(rows)
    assert f"{len(rows)} predictions of {path} are the text of a digit" in err


def test_tables_show_every_row_and_the_rows_of_reference(rldf: Rldf, tmp_path: Path) -> None:
    path = given(tmp_path, *right("Age"), *right("Beauty"))
    options = ("--bbq", str(SCENES), "--out", str(tmp_path / "here"), "--variant", "helm")
    status, out, _ = rldf("eval", "bbq", "--predictions", path, *options)
    assert status == 0 and "variant helm" in out and "those of the published order" in out
    for row in ("Age", "Beauty", "all items", "mean of categories", "always unknown"):
        assert row in out
    assert (
        json.loads((tmp_path / "here/eval/bbq.json").read_text(encoding="utf-8"))["variant"]
        == "helm"
    )


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--bbq", str(SCENES)], ["either MODEL or --predictions"]),
        (["m", "--predictions", "x.jsonl", "--bbq", str(SCENES)], ["either MODEL"]),
        (["--predictions", "no.jsonl", "--bbq", str(SCENES)], ["no.jsonl"]),
        (["./no-model", "--bbq", str(SCENES)], ["no such folder"]),
        (["embedded", "--bbq", "nowhere"], ["nowhere is not a folder"]),
        (["openai:m", "--bbq", str(SCENES)], ["--mode letter"]),
        (["embedded", "--bbq", str(SCENES), "--mode", "generate"], ["--mode rank"]),
        (["--predictions", "x.jsonl", "--items", "8", "--bbq", str(SCENES)], ["--only FILE"]),
    ],
)
def test_a_wrong_request_is_one_message(arguments: list[str], parts: list[str], rldf: Rldf) -> None:
    status, out, err = rldf("eval", "bbq", *arguments)
    assert (status, out) == (1, "") and err.startswith("error: ") and "Traceback" not in err
    assert [part for part in parts if part not in err] == []


def test_a_wrong_line_is_named(rldf: Rldf, tmp_path: Path) -> None:
    path = given(tmp_path, right("Age")[0], {"category": "Age", "example_id": 1, "prediction": 9})
    status, _, err = rldf("eval", "bbq", "--predictions", path, "--bbq", str(SCENES), "--json")
    assert status == 1 and f"error: {path}, line 2: " in err


@pytest.mark.parametrize("words", [["some/run"], ["some/run", "--json"], ["--json", "some/run"]])
def test_a_first_word_that_is_no_command_is_a_runs_folder(
    words: list[str], rldf: Rldf, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in = SimpleNamespace()  # the pipeline brings Ray and torch with it
    monkeypatch.setitem(sys.modules, "rldf_ray.pipeline", stand_in)
    monkeypatch.setattr(rldf_ray, "pipeline", stand_in, raising=False)
    status, _, err = rldf("eval", *words)
    assert status == 1 and "some/run has no plan.yaml" in err


class AlwaysA(BaseHTTPRequestHandler):
    """A chat endpoint whose model says "A." to everything, without log-probabilities."""

    asked: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(body)
        choice = {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "A."},
        }
        usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
        reply = {"id": "1", "object": "chat.completion", "created": 1, "model": body["model"]}
        content = json.dumps({**reply, "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
        """Nothing on the terminal."""


@pytest.fixture
def endpoint() -> Iterator[str]:
    AlwaysA.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), AlwaysA) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


@pytest.mark.parametrize("mode", ["letter", "generate"])
def test_an_endpoint_that_always_says_a_is_seen_and_not_asked_twice(
    mode: str, endpoint: str, rldf: Rldf, tmp_path: Path
) -> None:
    words = ["eval", "bbq", "openai:m", "--base-url", endpoint, "--bbq", str(SCENES)]
    words += ["--mode", mode, "--items", "4", "--json"]
    status, out, _ = rldf(*words)
    summary = json.loads(out)
    assert status == 0 and len(AlwaysA.asked) == summary["set"]["items"] == 20
    assert "shown as A" in summary["positions"]["verdict"]
    first = summary["reference"]["always_first"]["accuracy"]
    assert summary["overall"]["accuracy"] == pytest.approx(first)
    status, again, said = rldf(*words)
    assert (status, again) == (0, out) and len(AlwaysA.asked) == 20
    assert "20 answers were given before" in said and "another --out" in said
    table = pq.read_table(tmp_path / f"runs/bbq/openai-m-{mode}/eval/bbq.parquet")
    assert set(table["text"].to_pylist()) == {"A."}


def test_an_endpoint_is_asked_with_its_plans_fields(endpoint: str, rldf: Rldf) -> None:
    Path("plan.yaml").write_text(
        f"endpoint: {{base_url: '{endpoint}', extra_body: {{top_k: 3}}}}", encoding="utf-8"
    )
    words = ["openai:m", "--plan", "plan.yaml", "--bbq", str(SCENES), "--mode", "letter"]
    assert rldf("eval", "bbq", *words, "--items", "4")[0] == 0
    assert AlwaysA.asked and all(body["top_k"] == 3 for body in AlwaysA.asked)


def test_a_subset_leaves_the_whole_sets_result_alone(
    endpoint: str, rldf: Rldf, tmp_path: Path
) -> None:
    words = ["openai:m", "--base-url", endpoint, "--bbq", str(SCENES), "--mode", "letter"]
    assert rldf("eval", "bbq", *words, "--items", "4")[0] == 0
    whole = (tmp_path / "runs/bbq/openai-m-letter/eval/bbq.json").read_text(encoding="utf-8")
    asked = len(AlwaysA.asked)
    status, _, _ = rldf("eval", "bbq-hard", *words, "--items", "4", "--out", "hard.jsonl")
    assert status == 0 and len(AlwaysA.asked) == asked
    assert rldf("eval", "bbq", *words, "--only", "hard.jsonl")[0] == 0
    assert (tmp_path / "runs/bbq/openai-m-letter/eval/bbq.json").read_text(
        encoding="utf-8"
    ) == whole
    for name in ("openai-m-letter-hard", "openai-m-letter-hard/eval/bbq.json"):
        assert (tmp_path / "runs/bbq" / name).exists()


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("embedded", "embedded-rank"),
        ("org/name-1B", "name-1B-rank"),
        ("runs/a/model", "runs-a-model-rank"),
        ("/data/cmp/trained/x/ppo/model", "x-ppo-model-rank"),
        ("openai:model", "openai-model-rank"),
    ],
)
def test_models_of_other_runs_have_other_folders(model: str, name: str) -> None:
    assert default_out(model, "rank") == Path("runs/bbq") / name


@pytest.mark.slow
def test_the_embedded_model_is_ranked_and_its_hard_items_are_a_subset(
    rldf: Rldf, tmp_path: Path
) -> None:
    status, out, _ = rldf("eval", "bbq", "embedded", "--bbq", str(SCENES), "--items", "4", "--json")
    summary = json.loads(out)
    assert status == 0 and summary["set"]["items"] == 20 and summary["mode"] == "rank"
    where = ("--bbq", str(SCENES))
    status, out, _ = rldf(
        "eval", "bbq-hard", "embedded", *where, "--items", "4", "--out", "h.jsonl"
    )
    hard = [
        json.loads(line) for line in (tmp_path / "h.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert status == 0 and 0 < len(hard) <= 20
    status, out, _ = rldf("eval", "bbq", "embedded", *where, "--only", "h.jsonl", "--json")
    assert json.loads(out)["set"]["items"] == len(hard)
    assert {tuple(row["why"]) for row in hard} <= {("wrong",), ("wrong", "biased"), ("biased",)}
