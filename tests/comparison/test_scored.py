"""Tables 2 to 5 and Figures 5 and 6: scores of a judge and of people, taken in or asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rldf_ray.comparison.results import RESULT_SCHEMA
from rldf_ray.engines.checks import PreflightError
from rldf_ray.evaluate.people import run as human_work
from rldf_ray.models.base import ModelError
from rldf_ray.plan import PlanError
from tests import endpoint
from tests.comparison.conftest import Machine, compare
from tests.endpoint import Server, completion, serving
from tests.fakes import RecordingModel, plan_with, rated


def test_a_judges_figures_fill_the_tables_and_are_drawn(machine: Machine, tmp_path: Path) -> None:
    methods = ("default", "sft", "rldf_self")
    compare(tmp_path, repeats=1, methods=methods)
    figures = tmp_path / "eval/judge_long.parquet"
    figures.parent.mkdir()
    head = {"repeat": 0, "seed": 0, "set": "answers", "n": 6}
    pq.write_table(
        pa.Table.from_pylist(
            [
                {**head, "method": m, "group": group, "measure": measure, "value": 40.0 + i}
                for i, m in enumerate(methods)
                for group in ("age", "nationality", "religion", "all")
                for measure in ("BS", "CE", "LS")
            ],
            schema=RESULT_SCHEMA,
        ),
        figures,
    )
    (figures.parent / "judge.json").write_text(
        json.dumps({"judge": "vllm:j", "audit": None}), encoding="utf-8"
    )
    found = compare(tmp_path, repeats=1, methods=methods, figures=(str(figures),))
    assert machine.stages["ppo"] == 1
    table = next(t for t in found.tables if t.number == 3)
    assert table.columns == ("age", "nationality", "religion")
    assert {row.name: row.cells[0].mean for row in table.rows} == {
        "Default": 40.0, "SFT": 41.0, "RLDF self-reflection": 42.0,
    }  # fmt: skip
    assert [row.name for row in next(t for t in found.tables if t.number == 4).rows] == [
        f"{measure}, RLDF self-reflection" for measure in ("BS", "CE", "LS")
    ]
    assert any("vllm:j" in note for note in found.notes)
    text = (tmp_path / "compare/tables.md").read_text(encoding="utf-8")
    assert "| Default | **40.000** | **40.000** | **40.000** |" in text
    drawn = {path.stem for path in (tmp_path / "compare/figures").iterdir()}
    assert {"figure-5-ce", "figure-6-ls"} <= drawn


FAIR, UNFAIR = "It could be either of them.", "It was the old one."


def prefers_fairness(body: dict[str, Any]) -> endpoint.Answer:
    """A judge of 90 for the one answer and of 20 for the other, on a scale where more is better."""
    return completion("90" if FAIR in body["messages"][-1]["content"] else "20")


def test_a_judge_scores_the_free_answers_in_the_same_command(
    machine: Machine, tmp_path: Path
) -> None:
    methods = ("default", "sft", "rldf_self")
    machine.said = RecordingModel(
        lambda _: FAIR if any(w.endswith("ppo/model") for w in machine.synced[-1:]) else UNFAIR
    )
    with serving(Server(otherwise=prefers_fairness)) as server:
        plan = plan_with(f"endpoint.base_url={server.url}")
        found = compare(tmp_path, plan, repeats=2, methods=methods, judge="openai:m")
        asked = len(server.received)
        judged_at = (tmp_path / "compare/eval/judge.json").stat().st_mtime_ns
        again = compare(tmp_path, plan, repeats=2, methods=methods, judge="openai:m")
        assert asked > 0 and len(server.received) == asked
        assert (tmp_path / "compare/eval/judge.json").stat().st_mtime_ns == judged_at
        compare(tmp_path, plan, repeats=2, methods=methods, judge="openai:other")
        assert len(server.received) == 2 * asked
    # A judge of that name at another address is another judge.
    with serving(Server(otherwise=prefers_fairness)) as elsewhere:
        there = plan_with(f"endpoint.base_url={elsewhere.url}")
        compare(tmp_path, there, repeats=2, methods=methods, judge="openai:other")
        assert len(elsewhere.received) == asked
    assert again.results == found.results
    of_scores = [c for c in found.comparisons if c.condition in ("BS", "CE", "LS")]
    assert len(of_scores) == 3 * 3  # sft on Default, RLDF on Default and on SFT
    # BS alone is asked for turned round, so that 20 of 100 for fairness is a bias of 80.
    more = {"BS": -0.7, "CE": 0.7, "LS": 0.7}
    assert {(c.method, c.against, c.condition): c.value for c in of_scores} == {
        **{("sft", "default", measure): 0.0 for measure in more},
        **{
            ("rldf_self", against, measure): pytest.approx(points)
            for against in ("default", "sft")
            for measure, points in more.items()
        },
    }
    assert all(c.n == 3 for c in of_scores)
    three, four = (next(t for t in found.tables if t.number == n) for n in (3, 4))
    assert [row.cells[0].mean for row in three.rows] == [80.0, 80.0, 10.0]
    assert len(four.rows) == 3 and all(cell.n == 2 for row in four.rows for cell in row.cells)
    text = (tmp_path / "compare/tables.md").read_text(encoding="utf-8")
    assert "The judge of tables 3 to 5 is openai:other. BS: " in text
    answered = pq.read_table(tmp_path / "compare/free_answers.parquet").num_rows
    judged = pq.read_table(tmp_path / "compare/eval/judge.parquet")
    assert judged.num_rows == 3 * answered == 3 * 3 * 2 * 3


def test_a_judge_without_a_score_leaves_the_rest_and_an_error(
    machine: Machine, tmp_path: Path
) -> None:
    with serving(Server(otherwise=lambda body: completion("Score: 40"))) as server:
        plan = plan_with(f"endpoint.base_url={server.url}")
        for _ in range(2):
            with pytest.raises(ModelError, match="--judge openai:m: none of its replies is a sc"):
                compare(tmp_path, plan, repeats=1, methods=("default", "sft"), judge="openai:m")
    assert (tmp_path / "compare/figures/figure-7-cases.html").exists()
    assert "Not measured" in (tmp_path / "compare/tables.md").read_text(encoding="utf-8")
    left = str(tmp_path / "compare/eval/judge_long.parquet")
    with pytest.raises(PlanError, match="no row about the methods compared has a value"):
        compare(tmp_path, plan, repeats=1, methods=("default", "sft"), figures=(left,))


@pytest.mark.parametrize(
    ("judge", "why"),
    [("m", "--judge m: "), ("vllm:/nowhere/m", "/nowhere/m"), ("openai:m", "holds no key")],
)
def test_a_judge_that_cannot_be_asked_ends_it_before_work(
    judge: str, why: str, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises((PlanError, PreflightError), match=why):
        compare(tmp_path, judge=judge)
    assert not machine.stages


def test_a_judge_without_answers_or_beside_another_judge_is_refused(
    machine: Machine, tmp_path: Path
) -> None:
    with pytest.raises(PlanError, match="none of the methods is trained"):
        compare(tmp_path, judge="vllm:embedded", methods=("default", "cot"))
    row = {"method": "sft", "repeat": 0, "seed": 0, "set": "answers", "group": "age", "n": 1}
    rows = [row | {"measure": "BS", "value": 40.0}]
    pq.write_table(pa.Table.from_pylist(rows, schema=RESULT_SCHEMA), tmp_path / "long.parquet")
    figures = (str(tmp_path / "long.parquet"),)
    with pytest.raises(PlanError, match="give one of the two"):
        compare(tmp_path, judge="vllm:embedded", methods=("sft",), figures=figures)
    assert not machine.stages


def test_what_people_say_of_the_free_answers_fills_table_2(
    machine: Machine, tmp_path: Path
) -> None:
    methods = ("default", "rldf_self")
    compare(tmp_path, repeats=1, methods=methods)
    sheets = tmp_path / "people"
    human_work.export(tmp_path / "compare/free_answers.parquet", sheets, None, None, seed=0)
    files = [
        rated(
            sheets / "for_raters/sheet.csv",
            tmp_path / f"{rater}.csv",
            rater,
            lambda _, score=score: score,
        )
        for rater, score in (("ann", 20), ("bob", 60))
    ]
    human_work.imported(list(map(Path, files)), sheets / "key.parquet", tmp_path, seed=0)
    figures = (str(tmp_path / "eval/human_long.parquet"),)
    found = compare(tmp_path, repeats=1, methods=methods, figures=figures)
    two = next(t for t in found.tables if t.number == 2)
    assert [row.name for row in two.rows] == [
        f"{measure}, RLDF self-reflection" for measure in ("BS", "CE", "LS")
    ]
    assert two.columns == ("age",) and {cell.mean for r in two.rows for cell in r.cells} == {40.0}
    assert (
        "Not measured"
        not in (tmp_path / "compare/tables.md").read_text(encoding="utf-8").split("Table 3")[0]
    )
