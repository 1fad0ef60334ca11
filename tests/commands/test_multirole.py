"""`rldf eval multirole`: one command from the published file to shares."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.commands.conftest import Rldf
from tests.endpoint import Server, completion, serving
from tests.fakes import multirole_set


@pytest.fixture
def data(tmp_path: Path) -> str:
    """A made-up file in the published form: 12 rows on age, 12 on beauty."""
    rows = [
        {
            "bias_type": name,
            "target_gender": ("male", "female", "not_spacified")[i % 3],
            "context": f"Clerk number {i} was BLANK",
            "anti_stereotype": f"quick {i // 2}",
            "stereotype": f"slow {i // 2}",
            "unrelated": f"tall {i // 2}",
            "item_category": ("negative", "positive")[i % 2],
            "type_category": ("type1", "type2")[i // 6],
        }
        for name in ("ageism", "beauty")
        for i in range(12)
    ]
    return str(multirole_set(tmp_path / "set", rows))


def test_queries_are_written_answered_elsewhere_and_scored(
    rldf: Rldf, data: str, tmp_path: Path
) -> None:
    status, out, _ = rldf("eval", "multirole", "--data", data, "--write-queries", "q.jsonl")
    assert status == 0 and "24 queries" in out
    asked = [
        json.loads(text) for text in (tmp_path / "q.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    answers = [
        {key: one[key] for key in ("bias_type", "row", "order")}
        | {"prediction": next(text for text in one["options"] if text.startswith("slow"))}
        for one in asked
        if one["bias_type"] == "age"
    ]
    (tmp_path / "mine.jsonl").write_text(
        "".join(json.dumps(a) + "\n" for a in answers[:-1]), encoding="utf-8"
    )
    words = ["eval", "multirole", "--data", data, "--predictions", "mine.jsonl"]
    status, out, err = rldf(*words, "--json")
    summary = json.loads(out)
    assert status == 0, err
    assert list(summary["bias_types"]) == ["age"] and summary["missing"] == 1
    assert summary["all"]["biased"]["share"] == pytest.approx(11 / 12)
    table = pq.read_table(tmp_path / "runs/multirole/mine-predictions/eval/multirole.parquet")
    assert table["kind"].to_pylist().count("biased") == 11
    status, out, _ = rldf(*words, "--method", "SFT")
    long = pq.read_table(tmp_path / "runs/multirole/mine-predictions/eval/multirole_long.parquet")
    assert set(long["method"].to_pylist()) == {"SFT"} and long.num_rows == 6
    assert status == 0 and "1 queries had no prediction" in out and "anti-biased" in out


def test_a_smaller_sample_says_what_it_left_out(rldf: Rldf, data: str, tmp_path: Path) -> None:
    rows = [{"bias_type": "age", "row": i, "prediction": 0} for i in range(1, 13)]
    (tmp_path / "all.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
    )
    words = ["eval", "multirole", "--data", data, "--predictions", "all.jsonl"]
    status, out, err = rldf(*words, "--queries", "6", "--json")
    assert status == 0 and "6 lines of all.jsonl are about rows that are not in" in err
    assert json.loads(out)["all"]["n"] == 6 and json.loads(out)["positions"] is None


def test_predictions_about_nothing_in_the_data_are_refused(
    rldf: Rldf, data: str, tmp_path: Path
) -> None:
    words = ["eval", "multirole", "--data", data, "--predictions", "mine.jsonl"]
    for about, said in (
        ({"bias_type": "nationality", "row": 1}, "no row about nationality, which is asked for"),
        ({"bias_type": "age", "row": 99}, "line 1: age has no row 99"),
    ):
        (tmp_path / "mine.jsonl").write_text(
            json.dumps(about | {"prediction": 0}), encoding="utf-8"
        )
        status, _, err = rldf(*words)
        assert status == 1 and said in err
        assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("mode", ["letter", "generate"])
def test_an_endpoint_is_asked_every_query_once_and_seen_to_answer_by_place(
    mode: str, rldf: Rldf, data: str, tmp_path: Path
) -> None:
    words = ["eval", "multirole", "openai:m", "--data", data, "--mode", mode, "--json"]
    with serving(Server(otherwise=lambda body: completion("A."))) as server:
        words += ["--base-url", server.url]
        status, out, err = rldf(*words)
        assert status == 0, err
        assert len(server.received) == 24
        status, again, _ = rldf(*words)
        assert (status, again, len(server.received)) == (0, out, 24)
    summary = json.loads(out)
    assert "shown as A" in summary["positions"]["verdict"]
    table = pq.read_table(tmp_path / f"runs/multirole/openai-m-{mode}/eval/multirole.parquet")
    for row in table.to_pylist():
        assert row["prediction"] == row["order"][0]
    kinds = table["kind"].to_pylist()
    assert len(set(kinds)) == 3  # as the order of the options is drawn
    for kind in ("biased", "impartial", "anti_biased"):
        assert summary["all"][kind]["share"] == pytest.approx(kinds.count(kind) / 24)


@pytest.mark.slow
def test_the_embedded_model_is_ranked_and_asked_by_letter(
    rldf: Rldf, data: str, tmp_path: Path
) -> None:
    kinds = {}
    for mode in ("rank", "letter"):
        words = ["eval", "multirole", "embedded", "--data", data, "--mode", mode, "--json"]
        status, out, err = rldf(*words)
        assert status == 0, err
        assert json.loads(out)["all"]["n"] == 24 and json.loads(out)["mode"] == mode
        table = pq.read_table(tmp_path / f"runs/multirole/embedded-{mode}/eval/multirole.parquet")
        assert all(len(scores) == 3 for scores in table["scores"].to_pylist())
        for row in table.to_pylist():
            assert row["scores"][row["prediction"]] == max(row["scores"])
        kinds[mode] = table["kind"].to_pylist()
    assert kinds["rank"] != kinds["letter"]


def test_wrong_requests_are_refused_with_what_is_allowed(rldf: Rldf, data: str) -> None:
    status, _, err = rldf("eval", "multirole", "--data", data)
    assert status == 1 and "needed is one of MODEL" in err
    status, _, err = rldf("eval", "multirole", "embedded", "--data", "nowhere")
    assert status == 1 and "Kamruzzaman" in err and "--data DIR" in err
    status, _, err = rldf("eval", "multirole", "openai:m", "--data", data)
    assert status == 1 and "--mode letter or --mode generate" in err
