"""Judges as referees: who reads what, whose score counts, and what a run's plan makes of it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Literal

import pytest

from rldf_ray.models.base import ChatRequest
from rldf_ray.models.scripted import ScriptedModel
from rldf_ray.plan import PlanError, Speaker
from rldf_ray.preflight.estimate import estimate
from rldf_ray.protocols.judges.refereeing import DebateReferee, MetaReferee, StatementJudge
from rldf_ray.records import Context
from rldf_ray.referee.platt import Calibration
from rldf_ray.referee.trained import TrainedReferee
from rldf_ray.referee.verdict import SCORES, Verdict
from tests.fakes import plan_with

CONTEXT = Context("Who broke the vase?")
TEXTS = ["The boy did, boys are clumsy.", "Nobody can tell."]
SPOKEN = re.compile(r"^\[([^\]]+)\]\n(.*)$", re.MULTILINE)


class Judge(ScriptedModel):
    """Evaluates by its name and the number of the call, scores as it is told to, chooses A."""

    def __init__(self, own: str, score: str = "4") -> None:
        super().__init__(reply=self._say)
        self._own, self._score = own, score
        self.asked: list[ChatRequest] = []

    @property
    def name(self) -> str:
        return self._own

    def _say(self, request: ChatRequest) -> str:
        self.asked.append(request)
        if request.choices == SCORES:
            return self._score
        return "A" if request.choices else f"{self._own}{len(self.asked)}"

    def history(self, place: int) -> list[tuple[str, str]]:
        return SPOKEN.findall(self.asked[place].messages[-1].content)


def seat(model: ScriptedModel) -> StatementJudge:
    return StatementJudge(model=model, seed=0, max_tokens=32)


def verdicts(referee: DebateReferee | MetaReferee, texts: Sequence[str]) -> list[Verdict]:
    return asyncio.run(referee.judge(CONTEXT, texts, "d/round/1/referee"))


def test_a_debating_referee_scores_after_the_last_round() -> None:
    judge, critic = Judge("J", "7"), Judge("C", "1")
    referee = DebateReferee(judge_=seat(judge), critic=seat(critic), rounds=2)
    (verdict,) = verdicts(referee, TEXTS[:1])
    assert (verdict.score, verdict.rank, verdict.failure) == (7.0, 1, None)
    assert verdict.expected_score is not None and 0 < verdict.expected_score < 10
    assert [critic.history(i) for i in range(2)] == [
        [("Round 1: Judge", "J1")],
        [("Round 2: Judge", "J2")],
    ]
    assert judge.history(2)[-2:] == [("Round 2: Judge", "J2"), ("Round 2: Agent", "C2")]
    # The score is asked for with the judge's own last words, and with no number before it.
    assert judge.history(3) == [("You", "J3")] and judge.asked[3].choices == SCORES
    for request in (*judge.asked, *critic.asked):
        assert (
            TEXTS[0] in request.messages[-1].content
            and CONTEXT.text in request.messages[-1].content
        )
    assert verdict.usage.generated >= 5


def test_statements_are_judged_by_themselves_and_ranked_by_score() -> None:
    def reply(request: ChatRequest) -> str:
        if request.choices is None:
            return "words"
        return "9" if TEXTS[0] in request.messages[-1].content else "0"

    judge = seat(ScriptedModel(reply=reply))
    referee = DebateReferee(judge_=judge, critic=judge, rounds=1)
    there, back = verdicts(referee, TEXTS), verdicts(referee, TEXTS[::-1])
    assert [(v.score, v.rank) for v in there] == [(9.0, 2), (0.0, 1)]
    assert [v.score for v in back] == [0.0, 9.0]


def trained(reward: str) -> TrainedReferee:
    return TrainedReferee(ScriptedModel(reply=lambda request: reward), Calibration(1.0, 0.0, 10))


def test_a_pool_mixes_models_that_are_asked_and_one_that_is_fitted() -> None:
    meta, one = Judge("M", "6"), Judge("A", "2")
    pool = {"vllm:a": seat(one), "trained": trained("-2.0")}
    (verdict,) = verdicts(MetaReferee(judge_=seat(meta), pool=pool, mode="conclude"), TEXTS[:1])
    assert verdict.score == 6.0 and verdict.model == "M"
    read = dict(meta.history(0))
    assert set(read) == {"Referee A", "Referee B"}
    assert "My score: 8.8" in read.values() and any(
        t.startswith("A1 My score:") for t in read.values()
    )
    # Who they are is hidden.
    assert "vllm" not in meta.asked[0].messages[-1].content


def test_the_order_of_a_pool_is_that_of_the_statement_wherever_it_stands() -> None:
    def chosen(texts: Sequence[str]) -> dict[str, float | None]:
        pool = {"vllm:a": seat(Judge("A", "2")), "trained": trained("-2.0")}
        referee = MetaReferee(judge_=seat(Judge("M")), pool=pool, mode="select")
        return dict(zip(texts, (v.score for v in verdicts(referee, texts)), strict=True))

    texts = [f"{TEXTS[0]} {number}" for number in range(8)]
    assert chosen(texts) == chosen(texts[::-1])


@pytest.mark.parametrize("silent", ["J", "C"])
def test_no_score_follows_from_an_empty_evaluation(silent: str) -> None:
    def seated(name: str) -> StatementJudge:
        words = "" if name == silent else "words"
        return seat(ScriptedModel(reply=lambda request: "7" if request.choices else words))

    referee = DebateReferee(judge_=seated("J"), critic=seated("C"), rounds=1)
    (verdict,) = verdicts(referee, TEXTS[:1])
    assert (verdict.score, verdict.expected_score, verdict.rank) == (None, None, None)
    speaker = "Round 1: Judge" if silent == "J" else "Round 1: Agent"
    assert verdict.failure == f"no evaluation: {speaker} gave an empty text"


@pytest.mark.parametrize("mode", ["select", "conclude"])
@pytest.mark.parametrize("words", ["", " \n"])
def test_no_score_above_a_pool_follows_from_an_empty_evaluation(
    mode: Literal["select", "conclude"], words: str
) -> None:
    def reply(request: ChatRequest) -> str:
        return "A" if request.choices == ("A", "B") else "7" if request.choices else words

    silent = seat(ScriptedModel(reply=reply))
    pool = {"vllm:a": silent, "trained": trained("-2.0")}
    found = verdicts(MetaReferee(judge_=seat(Judge("M")), pool=pool, mode=mode), TEXTS)
    for one in found:
        assert one.score is one.expected_score is one.rank is None
        assert one.failure in [
            f"no evaluation: Referee {letter} gave an empty text" for letter in "AB"
        ]


def test_the_selected_members_score_is_the_verdict() -> None:
    found = set()
    for number in range(12):
        meta = Judge("M")
        pool = {"vllm:a": seat(Judge("A", "2")), "trained": trained("-2.0")}
        referee = MetaReferee(judge_=seat(meta), pool=pool, mode="select")
        (verdict,) = asyncio.run(referee.judge(CONTEXT, [f"{TEXTS[0]} {number}"], "d"))
        # The meta-judge gives no scores.
        assert [request.choices for request in meta.asked] == [("A", "B")]
        found.add(verdict.score)
    assert found == {2.0, 9.0}


def test_a_choice_that_is_none_is_a_failure_and_no_score() -> None:
    def reply(request: ChatRequest) -> str:
        return "the second one" if request.choices == ("A", "B") else "3"

    model = seat(ScriptedModel(reply=reply))
    referee = MetaReferee(judge_=model, pool={"a": model, "b": model}, mode="select")
    (verdict,) = verdicts(referee, TEXTS[:1])
    assert verdict.score is verdict.expected_score is verdict.rank is None
    assert verdict.failure == "the meta-judge's choice did not parse: 'the second one'"


def test_a_score_that_is_none_is_a_failure() -> None:
    model = seat(ScriptedModel(reply=lambda request: "very much"))
    (verdict,) = verdicts(DebateReferee(judge_=model, critic=model, rounds=1), TEXTS[:1])
    assert verdict.score is verdict.expected_score is None
    assert verdict.failure == "the referee's score did not parse: 'very much'"


def test_the_plan_names_who_takes_part() -> None:
    debate = plan_with("referee={kind: debate, model: 'vllm:j', critic: 'vllm:c', rounds: 2}")
    assert debate.speaker_of("critic") == Speaker("vllm", "c")
    assert {"j", "c"} < {speaker.model for speaker in debate.speakers()}
    alone = plan_with("referee={kind: debate, model: 'vllm:j'}")
    assert alone.speaker_of("critic") == Speaker("vllm", "j") and not alone.referee.fitted
    meta = plan_with(
        "referee={kind: meta, model: 'vllm:m', pool: ['vllm:a', trained], "
        "fit: {micro_batch: 1, batch_size: 4}}",
        "model=own",
    )
    assert meta.referee.fitted
    assert Speaker("trained", "own") in meta.speakers() and Speaker("vllm", "a") in meta.speakers()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("{kind: prompted, critic: 'vllm:c'}", "critic is for kind=debate, and kind is prompted"),
        ("{kind: debate, pool: ['vllm:a', 'vllm:b']}", "pool is for kind=meta"),
        ("{kind: meta}", "pool: .* is not two to nine different referees"),
        ("{kind: meta, pool: ['vllm:a', 'gpt']}", "allowed: null, "),
        ("{kind: debate, judgements: checked}", "judgements=checked with kind=debate"),
        ("{kind: trained, evaluation_tokens: 9}", "evaluation_tokens is for kind=debate or meta"),
    ],
)
def test_fields_of_another_kind_are_refused(fields: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        plan_with(f"referee={fields}")


def test_the_estimate_counts_evaluations() -> None:
    base = "referee={kind: %s}"
    stages = {
        kind: {s.name: s for s in estimate(plan_with(base % fields), None)}
        for kind, fields in {
            "prompted": "prompted",
            "debate": "debate, rounds: 2",
            "meta": "meta, pool: ['vllm:a', 'vllm:b']",
        }.items()
    }
    asked = {kind: found["audit"].calls for kind, found in stages.items()}
    assert asked["debate"] == 6 * asked["prompted"] and asked["meta"] == 5 * asked["prompted"]
