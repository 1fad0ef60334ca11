"""Figures of a judge come with what its audit said."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rldf_ray.compare.judges import judge_notes, score_rows
from rldf_ray.compare.method import methods_of
from tests.fakes import plan_with

ALSO = "The judge also debates or referees, or a referee is fitted from it,"


def told(folder: Path, judge: str, audit: dict[str, dict[str, str]] | None) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "judge.json").write_text(json.dumps({"judge": judge, "audit": audit}))
    return str(folder / "judge_long.parquet")


def test_a_judge_is_named_with_its_audit_and_the_rows_it_speaks_in(tmp_path: Path) -> None:
    methods = methods_of(plan_with("teacher=openai:a"), None, ("openai:a",))
    audit = {
        "BS": {"verdict": "BS: the judge scores the wrong way round."},
        "CE": {"verdict": "CE: the judge tells good from bad."},
    }
    first, second = judge_notes([told(tmp_path / "a", "openai:a", audit)], methods, "vllm:m")
    assert first == (
        "The judge of tables 3 to 5 is openai:a. BS: the judge scores the wrong way round. "
        "CE: the judge tells good from bad."
    )
    assert second == f"{ALSO} in the rows SFT, RLAIF, RLDF teacher a."


def test_a_judge_without_a_part_or_an_audit(tmp_path: Path) -> None:
    methods = methods_of(plan_with(), None, ())
    (only,) = judge_notes([told(tmp_path / "b", "openai:z", None)], methods, "vllm:m")
    assert only == "The judge of tables 3 to 5 is openai:z. It was not audited."


def test_peoples_figures_have_no_judge(tmp_path: Path) -> None:
    methods = methods_of(plan_with(), None, ())
    judged = Path(told(tmp_path / "e", "openai:z", None))
    people = str(judged.with_name("human_long.parquet"))
    assert judge_notes([people], methods, "vllm:m") == []
    assert len(judge_notes([str(judged), people, str(judged)], methods, "vllm:m")) == 1


def test_a_judge_that_every_row_begins_with_is_called_so(tmp_path: Path) -> None:
    methods = methods_of(plan_with(), ["default"], ())
    _, note = judge_notes([told(tmp_path / "c", "vllm:m", None)], methods, "vllm:m")
    assert note == "The judge is the model that every row begins with: it judges its own."


def test_a_judge_is_the_same_model_by_another_path(tmp_path: Path) -> None:
    (tmp_path / "teacher").mkdir()
    methods = methods_of(plan_with(f"teacher=vllm:{tmp_path}/teacher"), ["rldf_teacher"], ())
    other_name = f"vllm:{tmp_path}/../{tmp_path.name}/teacher/"
    _, note = judge_notes([told(tmp_path / "d", other_name, None)], methods, "vllm:m")
    assert note == f"{ALSO} in the rows RLDF teacher teacher."


def test_a_judge_is_the_same_model_whatever_serves_it(tmp_path: Path) -> None:
    methods = methods_of(plan_with("teacher=openai:big"), ["rldf_teacher"], ())
    _, note = judge_notes([told(tmp_path / "e", "vllm:big", None)], methods, "vllm:m")
    assert note == f"{ALSO} in the rows RLDF teacher big."


def test_a_referee_that_was_fitted_from_the_judge_is_told(tmp_path: Path) -> None:
    fitted = plan_with("referee.kind=trained", "referee.fit.model=big", "teacher=openai:other")
    methods = methods_of(fitted, ["rldf_teacher"], ())
    _, note = judge_notes([told(tmp_path / "f", "openai:big", None)], methods, "vllm:m")
    assert note == f"{ALSO} in the rows RLDF teacher other."


def test_a_prompt_without_a_score_of_someone_is_compared_for_nobody(tmp_path: Path) -> None:
    rows = [
        {
            "method": method, "repeat": repeat, "bias_type": "age", "prompt_id": prompt,
            "measure": measure,
            "score": None if (prompt, measure, repeat) == ("b", "BS", 1) else 50.0,
        }
        for method in ("default", "sft", "other")
        for repeat in (0, 1)
        for prompt in ("a", "b", "c")
        for measure in ("BS", "CE")
    ]  # fmt: skip
    # Of Default the answer is not even there.
    rows = [row for row in rows if row["score"] or row["method"] != "default"]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "judge.parquet")
    figures = str(tmp_path / "judge_long.parquet")
    found = score_rows([figures, figures], ["default", "sft"])
    compared = {(row["condition"], row["item_id"]) for row in found}
    assert compared == {("BS", "a"), ("BS", "c"), ("CE", "a"), ("CE", "b"), ("CE", "c")}
    assert len(found) == 5 * 2 * 2 and {row["score"] for row in found} == {0.5}
    assert score_rows([str(tmp_path / "human_long.parquet")], ["default"]) == []
