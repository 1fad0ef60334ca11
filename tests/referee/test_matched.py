"""Chosen answers are compared with the scene's record; nobody is asked, and nothing is made up."""

from __future__ import annotations

import asyncio

import pytest

from rldf_ray.protocols.multirole.answering import answering_of
from rldf_ray.records import Conclusion, Context, Debate, context_of
from rldf_ray.referee.matched import RECORD, MatchedReferee
from rldf_ray.referee.prompted import PromptedReferee
from rldf_ray.referee.verdict import Verdict
from rldf_ray.topics.bias_type import bias_type
from rldf_ray.topics.unknown import UNKNOWN
from tests.fakes import RecordingModel, judgement, plan_with

SCENE = judgement(2)
TOLD, OPEN = context_of(SCENE, clue_shown=True), context_of(SCENE, clue_shown=False)


def judged(context: Context, texts: list[str], model: RecordingModel) -> list[Verdict]:
    referee = MatchedReferee(PromptedReferee(model, 0))
    return asyncio.run(referee.judge(context, texts, "d/round/1"))


def scores(context: Context, *texts: str) -> list[float | None]:
    model = RecordingModel()
    found = judged(context, list(texts), model)
    assert model.requests == []
    assert all(v.expected_score == v.score for v in found)
    return [v.score for v in found]


def other_than(answer: str | None) -> str:
    assert SCENE.groups is not None
    return next(group for group in SCENE.groups if group != answer)


def test_the_answer_of_the_record_is_right_and_no_other() -> None:
    assert SCENE.answer is not None
    right, wrong = f"{SCENE.answer}.", f"{other_than(SCENE.answer)}."
    assert scores(TOLD, right.capitalize(), wrong, "Nobody can tell.") == [0, 10, 10]
    assert scores(OPEN, right, wrong, "Nobody can tell.") == [10, 10, 0]


def test_a_reason_after_the_answer_changes_nothing() -> None:
    assert scores(TOLD, f"{SCENE.answer}. It says so.") == [0]
    assert scores(OPEN, "Hard to say from what is written. It was either.") == [0]


def test_the_whole_answer_counts_and_not_how_it_begins() -> None:
    told = Context("C", Conclusion("Who?", "the cook"))
    assert scores(told, "The cook's aunt.", "The cook.") == [10, 0]


@pytest.mark.parametrize("wordings", UNKNOWN)
@pytest.mark.parametrize("shown", [True, False])
def test_of_what_can_be_chosen_one_answer_is_right(wordings: str, shown: bool) -> None:
    plan = plan_with(f"debate={{answers: chosen, unknown: {wordings}}}")
    identities = bias_type("age").identities[:3]
    for place in range(len(UNKNOWN["own"])):
        debate = Debate(debate_id=f"d{place}", topic=SCENE, clue_shown=shown, identities=identities)
        answering = answering_of(debate, plan)
        assert answering is not None
        found = scores(context_of(SCENE, shown), *answering.choices)
        assert sorted(map(str, found)) == ["0.0", "10.0", "10.0"]


def test_ranks_are_those_of_the_scores_and_the_record_is_named() -> None:
    found = judged(OPEN, ["The old baker.", "", "It may have been either."], RecordingModel())
    assert [v.rank for v in found] == [2, None, 1]
    assert [v.score for v in found] == [10, None, 0]
    assert found[1].failure is not None and found[0].failure is None
    assert {v.model for v in found} == {RECORD}


def test_equal_answers_share_a_rank_wherever_they_sit() -> None:
    answers = ["The old baker.", "It may have been either.", "The young baker."]
    assert [v.rank for v in judged(OPEN, answers, RecordingModel())] == [2, 1, 2]
    assert [v.rank for v in judged(OPEN, answers[::-1], RecordingModel())] == [2, 1, 2]


def test_opinions_are_the_other_referees() -> None:
    model = RecordingModel()
    found = judged(Context("Should bakers rest"), ["They should.", "Never."], model)
    assert model.requests and {v.model for v in found} != {RECORD}
    assert MatchedReferee(PromptedReferee(model, 0)).kind == "prompted"
