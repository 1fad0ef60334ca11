"""The Python API, called where an event loop runs already, as in a notebook."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rldf_ray as rldf
from rldf_ray.api.arguments import written
from rldf_ray.apps.serve.settings import SettingsError
from rldf_ray.evaluate.bbq.run_models import SCENES
from rldf_ray.plan import PlanError, load_plan
from rldf_ray.sets.bbq.data import load_bbq
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.storage.yaml_text import read_yaml
from tests.comparison.conftest import Machine, machine
from tests.endpoint import Server, completion, made_up, serving

__all__ = ["machine"]
SCRIPT = {
    "teacher": "openai:small",
    "referee": {"kind": "prompted", "label_source": "said", "audit_pairs": 2},
}
USER = """
import rldf_ray as rldf
from datasets import Dataset  # type: ignore[import-untyped]

async def main() -> None:
    run: rldf.Run = await rldf.arun("smoke", "run", overrides={"seed": 1})
    rows: Dataset = run.statements
    reveal_type(rldf.bbq("embedded", bbq="hub").accuracy)
    rldf.study("judges", plan=3)
"""


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Answers as many figures, choices and sentences as it is asked for."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
    with serving(Server(otherwise=made_up())) as server:
        yield server


async def test_debates_and_their_data(endpoint: Server, tmp_path: Path) -> None:
    overrides = {**SCRIPT, "endpoint.base_url": endpoint.url}
    run = rldf.debate("smoke", tmp_path / "run", overrides=overrides, quiet=True)
    assert {"topic_id", "text", "score"} <= set(run.statements.column_names)
    assert run.sft.num_rows > 0 and run.topics.num_rows > 0 and run.prompts.num_rows > 0
    assert run.report["plan"]["teacher"] == "openai:small"
    asked = len(endpoint.received)
    again = await rldf.adebate("smoke", tmp_path / "run", overrides=overrides, quiet=True)
    assert again == run and len(endpoint.received) == asked
    assert again.pairs.column_names == run.pairs.column_names


async def test_a_study(endpoint: Server, tmp_path: Path) -> None:
    data = tmp_path / "pairs.jsonl"
    row = {"question": "Which?", "answer1": "This.", "answer2": "That.", "label": 1}
    data.write_text(json.dumps(row) + "\n", encoding="utf-8")
    overrides = {
        "models": {"a": "openai:small", "b": "openai:large"},
        "endpoint.base_url": endpoint.url,
        "settings.data": str(data),
    }
    found = rldf.study("judges", "smoke", tmp_path / "study", overrides=overrides, quiet=True)
    assert found.notes and found.tables and found.data("items").num_rows == 1
    again = await rldf.astudy("judges", "smoke", tmp_path / "study", overrides=overrides)
    assert again.notes == found.notes


async def test_bbq_of_predictions_and_of_an_endpoint(endpoint: Server, tmp_path: Path) -> None:
    items = load_bbq(SCENES, ["Age"]).items
    mine = tmp_path / "mine.jsonl"
    rows = [
        {"category": i.category, "example_id": i.example_id, "prediction": i.options[i.label]}
        for i in items
    ]
    mine.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    scored = rldf.bbq(bbq=SCENES, predictions=mine, out=tmp_path / "mine")
    assert scored.accuracy == 1 and scored.answers.num_rows == len(items)
    asked = await rldf.abbq(
        "openai:small", bbq=SCENES, mode="letter", items=4, out=tmp_path / "asked",
        endpoint={"base_url": endpoint.url},
    )  # fmt: skip
    same = rldf.bbq(
        "openai:small", bbq=SCENES, mode="letter", items=4, out=tmp_path / "again",
        endpoint={"base_url": endpoint.url},
    )  # fmt: skip
    assert (
        asked.answers.num_rows
        == same.answers.num_rows
        == 4 * len({i.category for i in load_bbq(SCENES).items})
    )
    with pytest.raises(rldf.UserError, match="either MODEL or --predictions"):
        rldf.bbq(bbq=SCENES)


@pytest.mark.parametrize("fields", [{"retrys": 1}, {"retries": "often"}, ["retries"], "retries"])
def test_a_wrong_field_of_an_endpoint_is_named(fields: Any) -> None:
    with pytest.raises(PlanError, match="retr"):
        rldf.bbq("openai:small", bbq=SCENES, endpoint=fields)


def test_what_a_run_has_not_written_is_an_error_that_says_so(tmp_path: Path) -> None:
    run = rldf.Run(str(tmp_path / "run"))
    with pytest.raises(rldf.UserError, match=r"run has no data/pairs\.parquet; there: no table"):
        _ = run.pairs
    RunFolder(tmp_path / "run").write_table("data/turns.parquet", pa.table({"text": ["x"]}))
    for get, name in (
        (lambda: run.statements, r"data/transcripts\.parquet; there: data/turns\.parquet\."),
        (lambda: run.report, r"report\.json: `rldf report` writes it"),
        (lambda: run.model, r"model: it comes when the last stage of train\.after has finished"),
    ):
        with pytest.raises(rldf.UserError, match=rf"run has no {name}"):
            get()
    RunFolder(tmp_path / "run").write_text("data/sft.parquet", "no table")
    with pytest.raises(rldf.UserError, match=r"sft\.parquet cannot be read"):
        _ = run.sft
    studied = rldf.StudyResult(str(tmp_path / "run"), (), {}, {})
    assert studied.data("turns").num_rows == 1


def test_a_path_is_a_value_of_a_plan_and_an_object_is_none(tmp_path: Path) -> None:
    assert written({"evaluate.bbq": tmp_path, "a": (Path("b"), {"c": Path("d")})}) == [
        f'evaluate.bbq="{tmp_path}"',
        'a=["b", {"c": "d"}]',
    ]
    for wrong in (object(), {1, 2}, {"a": b"b"}, {object(): 1}):
        with pytest.raises(PlanError, match=r"overrides: evaluate\.bbq is .* allowed: numbers"):
            rldf.run("smoke", tmp_path / "run", overrides={"evaluate.bbq": wrong})
    with pytest.raises(SettingsError, match=r"port\.x"):
        rldf.serve("embedded", overrides={"port": 1, "port.x": 2})


def test_values_of_a_plan_are_read_as_they_were_given() -> None:
    prompt = "\U0001f600 Straße, 你好:\n\x7f"
    plan = load_plan("smoke", written({"name": "run \U0001f600", "debate.rounds": 1}))
    assert plan.name == "run \U0001f600"
    assert [read_yaml(text.partition("=")[2]) for text in written({"a": {prompt: [prompt]}})] == [
        {prompt: [prompt]}
    ]
    with pytest.raises(PlanError, match="half of a character"):
        load_plan("smoke", written({"name": "\ud83d"}))
    for none in (float("nan"), float("inf")):
        with pytest.raises(PlanError, match=r"overrides: endpoint\.budget_usd .*is NaN or inf"):
            written({"endpoint.budget_usd": none})


async def test_a_judge(endpoint: Server, tmp_path: Path) -> None:
    answers = tmp_path / "answers.jsonl"
    rows = [
        {"method": m, "prompt_id": f"p{i}", "bias_type": "age", "prompt": "Who?", "answer": "All."}
        for m in ("Default", "RLDF")
        for i in range(2)
    ]
    answers.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    endpoint.otherwise = lambda body: completion("40")
    given: dict[str, Any] = {
        "measures": ("BS",),
        "audit_pairs": 0,
        "overrides": {"endpoint.base_url": endpoint.url},
    }
    found = rldf.judge(answers, "openai:m", out=tmp_path / "judged", **given)
    assert found.scores["RLDF"]["all"]["BS"]["mean"] == 60
    asked = len(endpoint.received)
    again = await rldf.ajudge(answers, "openai:m", out=tmp_path / "judged", **given)
    assert again.scores == found.scores and len(endpoint.received) == asked


async def test_a_comparison(machine: Machine, tmp_path: Path) -> None:
    given: dict[str, Any] = {"methods": ["default", "sft"], "repeats": 1, "modes": ["rank"]}
    found = rldf.compare("smoke", tmp_path / "out", quiet=True, **given)
    assert set(found.results["method"]) == {"default", "sft"}
    again = await rldf.acompare("smoke", tmp_path / "out", quiet=True, **given)
    assert again.summary["comparisons"] == found.summary["comparisons"] and again.items.num_rows


def test_types_are_seen(tmp_path: Path) -> None:
    program = tmp_path / "mine.py"
    program.write_text(USER, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-incremental", str(program)],
        cwd=tmp_path, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert 'Revealed type is "float | None"' in done.stdout, done.stdout
    assert 'Argument "plan" to "study" has incompatible type "int"' in done.stdout
    assert done.stdout.count("error:") == 1, done.stdout
