"""A referee that refuses, at an endpoint that tells the likeliest tokens: no score, no label."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from rldf_ray.models.base import ChatRequest, Completion
from rldf_ray.protocols.judges.refereeing import DebateReferee, StatementJudge
from rldf_ray.protocols.turns import Spoken, refereed
from rldf_ray.records import Conclusion, Context
from rldf_ray.referee.labels import Threshold, label_round
from rldf_ray.referee.prompted import PromptedReferee
from rldf_ray.referee.verdict import SCORES, Referee, Verdict
from tests.endpoint import completed, with_top
from tests.fakes import RecordingModel, completion

CONTEXT = Context("An old man came late.")
SCENE = Context("An old man came late.", Conclusion("Who came late?", "The old man."))
REFUSAL = "I'm sorry, I cannot rate that."


def reply(request: ChatRequest) -> Completion:
    """Refuses what it is asked of "vile"; otherwise the last of the choices, mostly."""
    if request.choices is None:
        return completion("It generalises.")
    if not request.choice_probabilities:
        return completion(request.choices[0])
    share = 1 / len(request.choices)
    if "vile" in request.messages[-1].content:
        top = {"I": 0.999} | dict.fromkeys(request.choices, 1e-05 * share)
        return completed(with_top(REFUSAL, top), request)
    last = request.choices[-1]
    top = dict.fromkeys(request.choices, 0.1 * share) | {last: 0.9 + 0.1 * share}
    return completed(with_top(last, top), request)


def debating(model: RecordingModel) -> Referee:
    seat = StatementJudge(model=model, seed=0, max_tokens=20)
    return DebateReferee(judge_=seat, critic=seat, rounds=1)


def scoring(model: RecordingModel) -> Referee:
    return PromptedReferee(model, 0)


def checking(model: RecordingModel) -> Referee:
    return PromptedReferee(model, 0, checks=True)


REFEREES = [(scoring, CONTEXT), (checking, SCENE), (debating, CONTEXT)]


def verdicts(place: int, texts: Sequence[str]) -> list[Verdict]:
    make, context = REFEREES[place]
    return asyncio.run(make(RecordingModel(reply)).judge(context, texts, "a"))


@pytest.mark.parametrize("place", range(len(REFEREES)))
def test_a_refusal_is_a_failure_without_any_score(place: int) -> None:
    refused, other = verdicts(place, ["They are vile.", "They are late."])
    assert (refused.score, refused.expected_score) == (None, None)
    assert refused.failure is not None and repr(REFUSAL) in refused.failure
    assert other.score == 10 and other.expected_score is not None and other.expected_score > 9
    assert other.failure is None


@pytest.mark.parametrize("source", ["expected", "said"])
def test_a_refused_statement_has_no_label_and_the_others_keep_theirs(source: str) -> None:
    spoken = [
        Spoken(identity="x", text=text, completion=completion(text))
        for text in ("They are vile.", "They are late.")
    ]
    found = asyncio.run(
        refereed(
            spoken,
            PromptedReferee(RecordingModel(reply), 0),
            CONTEXT,
            "a",
            affinity="",
            score_source="expected" if source == "expected" else "said",
        )
    )
    assert [turn.score_source for turn in found] == [source] * 2
    labels = label_round([turn.score for turn in found], Threshold("absolute", 3))
    assert labels == [None, "high"]


def test_a_number_with_more_after_it_keeps_its_expectation() -> None:
    top = dict.fromkeys(SCORES, 0.01) | {"7": 0.9}
    model = RecordingModel(
        lambda request: (
            completed(with_top("7 out of 10", top), request)
            if request.choice_probabilities
            else None
        )
    )
    (verdict,) = asyncio.run(PromptedReferee(model, 0).judge(CONTEXT, ["Late."], "a"))
    assert verdict.score is None and verdict.failure is not None
    assert verdict.expected_score == pytest.approx(6.78)
