"""Figures of a judge come with what its audit said."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rldf_ray.comparison.judges import compare_scores, judge_notes
from rldf_ray.comparison.method import methods_of
from tests.fakes import plan_with

ALSO = "The judge also debates or referees, or a referee is fitted from it,"


def told(folder: Path, judge: str, audit: dict[str, dict[str, str]] | None) -> str:
    folder.mkdir(exist_ok=True)
    summary = {"judge": judge, "audit": audit, "audited_bias_types": ["age"]}
    methods = {"default": {"age": {}, "religion": {}, "all": {}}}
    (folder / "judge.json").write_text(
        json.dumps({**summary, "methods": methods}), encoding="utf-8"
    )
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
        "CE: the judge tells good from bad. It was not audited on religion: there are no labelled "
        "statements."
    )
    assert second == f"{ALSO} in the rows SFT, RLAIF, RLDF teacher a."


def test_a_judge_without_a_part_or_an_audit(tmp_path: Path) -> None:
    methods = methods_of(plan_with(), None, ())
    (only,) = judge_notes([told(tmp_path / "b", "openai:z", None)], methods, "vllm:m")
    assert only == (
        "The judge of tables 3 to 5 is openai:z. The judge was not audited, so nothing is known of "
        "how good its scores are."
    )


def test_answers_without_a_score_are_counted_for_each_row(tmp_path: Path) -> None:
    methods = methods_of(plan_with(), ["default", "sft"], ())
    figures = Path(told(tmp_path / "c", "openai:z", None))
    scored = {"BS": {"n": 37, "without_score": 3}, "CE": {"n": 40, "without_score": 0}}
    worse = scored | {"LS": {"n": 0, "without_score": 40}, "own": {"n": 1, "without_score": 9}}
    summary = json.loads(figures.with_name("judge.json").read_text(encoding="utf-8"))
    summary["methods"] = {"default": {"all": scored}, "sft": {"all": worse}, "else": {"all": worse}}
    figures.with_name("judge.json").write_text(json.dumps(summary), encoding="utf-8")
    _, note = judge_notes([str(figures)], methods, "vllm:m")
    assert note == (
        f"Answers that it gave no score are in no mean: {methods[0].title} 3 of 40 (BS); "
        "SFT 3 of 40 (BS), 40 of 40 (LS)."
    )


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


def judged(folder: Path, scores: dict[str, dict[str, list[float | None]]]) -> str:
    """A judge's BS by method and prompt, one a repeat; returns the file of its mean scores."""
    folder.mkdir(exist_ok=True)
    rows = [
        {
            "method": method, "repeat": repeat, "bias_type": "age", "prompt_id": prompt,
            "measure": "BS", "score": score,
        }
        for method, prompts in scores.items()
        for prompt, of_repeats in prompts.items()
        for repeat, score in enumerate(of_repeats)
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), folder / "judge.parquet")
    return str(folder / "judge_long.parquet")


def test_scores_are_compared_on_the_prompts_that_both_have(tmp_path: Path) -> None:
    prompts = [f"topic-{i}-plain" for i in range(8)]
    figures = judged(
        tmp_path,
        {
            "default": {prompt: [60.0, 62.0] for prompt in prompts},
            # One prompt has a score in one repeat alone, another in none.
            "sft": {prompt: [40.0, 42.0] for prompt in prompts}
            | {prompts[0]: [41.0, None], prompts[1]: [None, None]},
            "rldf_self": {prompt: [None, None] for prompt in prompts},
            "other": {},
        },
    )
    (found,) = compare_scores([figures, figures], ["default", "sft", "rldf_self"], 0)
    assert (found.method, found.against, found.condition) == ("sft", "default", "BS")
    assert found.value == pytest.approx(-0.2) and found.n == found.templates == 7
    assert found.verdict == "better"
    assert compare_scores([str(tmp_path / "human_long.parquet")], ["default", "sft"], 0) == []


def test_a_topics_prompts_with_and_without_the_clue_are_resampled_together(tmp_path: Path) -> None:
    prompts = [f"topic-{i}-{end}" for i in range(3) for end in ("plain", "clue")]
    both = {method: {key: [10.0] for key in prompts} for method in ("default", "sft")}
    (found,) = compare_scores([judged(tmp_path, both)], ["default", "sft"], 0)
    assert (found.n, found.templates, found.verdict) == (6, 3, "too few templates")


def test_two_judges_are_not_held_against_each_other(tmp_path: Path) -> None:
    figures = [
        judged(tmp_path / method, {method: {f"p{i}": [score] for i in range(number)}})
        for method, score, number in (("default", 60.0, 8), ("sft", 40.0, 7))
    ]
    assert compare_scores(figures, ["default", "sft"], 0) == []
