"""The trained referee: rewards in, scores, ranks and failures out; no score is made up."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.models.base import ChatRequest
from rldf_ray.records import Context
from rldf_ray.referee.platt import Calibration
from rldf_ray.referee.trained import TrainedReferee, number_in, ranks_of
from rldf_ray.referee.verdict import Verdict
from tests.fakes import RecordingModel

CALIBRATION = Calibration(slope=1.0, intercept=0.0, statements=100)


def judged(rewards: dict[str, str], *texts: str) -> tuple[list[Verdict], RecordingModel]:
    """Verdicts on `texts`, whose rewards the model answers with."""

    def answer(request: ChatRequest) -> str:
        return rewards[request.messages[-1].content]

    model = RecordingModel(answer)
    referee = TrainedReferee(model, CALIBRATION)
    context = Context("Should rule 1 be kept")
    return asyncio.run(referee.judge(context, texts, "d/round/1", "d")), model


def test_a_higher_reward_is_a_lower_score_and_a_better_rank() -> None:
    found, _ = judged({"a": "0.0", "b": "2.0", "c": "-2.0"}, "a", "b", "c")
    assert [v.score for v in found] == [5.0, 1.0, 9.0]
    assert [v.expected_score for v in found] == pytest.approx([5.0, 1.19, 8.81], abs=0.01)
    assert [v.rank for v in found] == [2, 1, 3]
    assert all(v.failure is None and v.model == "recording" for v in found)


def test_each_statement_is_asked_alone_after_its_context() -> None:
    _, model = judged({"a": "1", "b": "2"}, "a", "b")
    assert [r.address for r in model.asked("")] == ["d/round/1/score/0", "d/round/1/score/1"]
    for request, text in zip(model.asked(""), "ab", strict=True):
        assert [m.role for m in request.messages] == ["system", "user", "assistant"]
        assert "Should rule 1 be kept" in request.messages[1].content
        assert request.messages[2].content == text
        assert request.affinity == "d"


def test_the_order_of_a_round_changes_nothing() -> None:
    rewards = {"a": "0.3", "b": "-1.2", "c": "4.0"}
    expected = dict(zip("abc", judged(rewards, "a", "b", "c")[0], strict=True))
    for order in itertools.permutations("abc"):
        assert dict(zip(order, judged(rewards, *order)[0], strict=True)) == expected


@pytest.mark.parametrize(
    ("answer", "failure"), [("", "too long"), ("nan", "no number: 'nan'"), ("inf", "no number")]
)
def test_a_reward_that_is_none_is_a_failure_and_nothing_else(answer: str, failure: str) -> None:
    found, _ = judged({"a": answer, "b": "2.0"}, "a", "b")
    assert found[0].score is None and found[0].expected_score is None
    assert found[0].failure is not None and failure in found[0].failure
    assert found[1].score == 1.0 and found[1].failure is None
    assert [v.rank for v in found] == [None, 1]


def test_a_statement_without_a_word_is_not_scored() -> None:
    (found,), _ = judged({"": ""}, "")
    assert found.score is None and found.rank is None
    assert found.failure == "there is nothing to score"


def test_no_statements_no_verdicts() -> None:
    assert judged({})[0] == []


@given(st.text())
def test_whatever_is_answered_is_a_finite_number_or_none(text: str) -> None:
    found = number_in(text)
    assert found is None or abs(found) < float("inf")


@given(st.lists(st.floats(0, 10), max_size=6))
def test_a_rank_is_how_many_scores_are_lower_and_one(scores: list[float]) -> None:
    lower = [sum(other < score for other in scores) for score in scores]
    assert ranks_of(scores) == [1 + number for number in lower]
    assert ranks_of([None, *scores, None]) == [None, *ranks_of(scores), None]
