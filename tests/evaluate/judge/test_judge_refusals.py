"""A judge that refuses some answers: no score of those, and the others keep their source."""

from __future__ import annotations

from typing import Any

import pytest

from rldf_ray.evaluate.judge.answers import FreeAnswer
from rldf_ray.evaluate.judge.judge import (
    Compared,
    Judge,
    compare_answers,
    judge_answers,
    pairs_against,
)
from rldf_ray.evaluate.judge.rubrics import rubric
from rldf_ray.evaluate.judge.summary import failures_of, preferences, score_source, summary_of
from rldf_ray.models.base import ChatRequest, Completion
from tests.endpoint import completed, with_top
from tests.fakes import RecordingModel, completion

REFUSAL = "I'm sorry, I can't."


def answers(*methods: str) -> list[FreeAnswer]:
    return [
        FreeAnswer(
            method=method,
            prompt_id=f"p{i}",
            bias_type="age",
            prompt=f"Question {i}?",
            answer=f"{method} says it is {'vile' if i == 3 else 'late'}, {i}.",
        )
        for method in methods
        for i in range(4)
    ]


def reply(request: ChatRequest) -> Completion:
    assert request.choices is not None
    if "vile" in request.messages[-1].content:
        faint = dict.fromkeys(request.choices, 1e-06)
        return completed(with_top(REFUSAL, {"I": 0.9999} | faint), request)
    first, second = request.choices[:2]
    rest = dict.fromkeys(request.choices[2:], 1e-6)
    return completed(with_top(first, {first: 0.75, second: 0.25} | rest), request)


def without(request: ChatRequest) -> Completion:
    assert request.choices is not None
    vile = "vile" in request.messages[-1].content
    return completion(REFUSAL if vile else request.choices[0])


async def test_a_refusal_has_no_score_and_does_not_change_whose_scores_count() -> None:
    judge = Judge(RecordingModel(reply), seed=0)
    found = await judge_answers(judge, answers("A"), [rubric("LS")])
    *others, refused = [one.judgement for one in found]
    assert (refused.said, refused.expected) == (None, None)
    assert refused.failure is not None and REFUSAL in refused.failure
    assert [one.expected for one in others] == pytest.approx([2.5] * 3, abs=0.01)
    assert failures_of(found)["number"] == 1
    source = score_source(found)
    assert source == "expected"
    summary = summary_of(found, source, 0)["A"]["all"]["LS"]
    assert (summary["n"], summary["without_score"]) == (3, 1)


async def test_scores_are_the_said_ones_where_one_has_no_other() -> None:
    judge = Judge(RecordingModel(without), seed=0)
    found = await judge_answers(judge, answers("A"), [rubric("LS")])
    assert score_source(found) == "said"
    expected = await judge_answers(Judge(RecordingModel(reply), 0), answers("A"), [rubric("LS")])
    assert score_source([*expected, *found]) == "said"
    assert score_source(expected[3:]) == "said"


async def compared(model: RecordingModel) -> tuple[list[Compared], dict[str, Any]]:
    pairs = pairs_against(answers("A", "B"), "A")
    found = await compare_answers(Judge(model, seed=0), pairs, [rubric("LS")])
    return found, preferences(found, "A", 0)["methods"]["B"]["LS"]


async def test_a_refused_pair_is_left_out_of_both_preferences() -> None:
    found, result = await compared(RecordingModel(reply))
    assert [c.first_probability for c in found[6:]] == [None, None]
    assert (result["pairs"], result["failures"]) == (4, 1)
    assert (result["preferred"], result["expected"]) == (0.5, pytest.approx(0.5))
    _, result = await compared(RecordingModel(without))
    assert (result["preferred"], result["expected"]) == (0.5, None)
