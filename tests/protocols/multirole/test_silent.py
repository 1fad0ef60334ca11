"""A debater who says nothing is not judged, has no place among the others, and is not read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.models.base import ChatRequest, Completion
from rldf_ray.protocols import multirole
from rldf_ray.protocols.judges.refereeing import DebateReferee, MetaReferee, StatementJudge
from rldf_ray.protocols.seam import Cast
from rldf_ray.records import Statement
from rldf_ray.referee.prompted import PromptedReferee
from rldf_ray.referee.verdict import Referee
from tests.fakes import RecordingModel, completion, judgement, plan_with, probabilities

REFEREES: dict[str, Callable[[RecordingModel], Referee]] = {
    "prompted": lambda model: PromptedReferee(model, 0),
    "checked": lambda model: PromptedReferee(model, 0, checks=True),
    "debate": lambda model: DebateReferee(judge_=judge(model), critic=judge(model), rounds=1),
    "meta": lambda model: MetaReferee(
        judge_=judge(model), pool={"a": judge(model), "b": judge(model)}, mode="conclude"
    ),
}
every_referee = pytest.mark.parametrize("name", list(REFEREES))
every_order = pytest.mark.parametrize("order", ["simultaneous", "sequential"])


def judge(model: RecordingModel) -> StatementJudge:
    return StatementJudge(model=model, seed=0, max_tokens=16)


def held(
    model: RecordingModel, referee: Referee, order: str = "simultaneous", rounds: int = 2
) -> list[Statement]:
    plan = plan_with("bias_types=[age]", f"debate.rounds={rounds}", f"debate.order={order}")
    cast = Cast(plan=plan, run_id="r", models={"debater": model}, referee=referee)
    return asyncio.run(multirole.hold(multirole.items([judgement(1)], plan)[0], cast))


def silent_at(*seats: int, number: int = 1) -> RecordingModel:
    """Everybody speaks, but for some in one round; every score is certain."""

    def answer(request: ChatRequest) -> str | Completion | None:
        if any(f"/round/{number}/role/{seat}" in request.address for seat in seats):
            return completion(" \n")
        if "/role/" in request.address:
            return f"Statement of {request.address}."
        if request.choices is not None and request.choice_probabilities:
            chances = probabilities(_4=1.0) if "4" in request.choices else {"yes": 1.0, "no": 0.0}
            return completion(next(iter(request.choices)), choice_probabilities=chances)
        return None

    return RecordingModel(answer)


@every_referee
@every_order
def test_who_says_nothing_has_neither_score_nor_rank_nor_label(name: str, order: str) -> None:
    model = silent_at(0)
    rows = held(model, REFEREES[name](model), order)
    silent, *spoke = rows[:3]
    assert (silent.score, silent.expected_score, silent.rank, silent.label) == (None,) * 4
    assert silent.failure == "the debater said nothing" and silent.referee_model == ""
    assert {row.rank for row in spoke} <= {1, 2}
    assert all(row.score is not None and row.failure is None for row in spoke)
    assert {row.label_source for row in rows} == {"said"}


@every_referee
def test_nothing_is_asked_about_what_nobody_said(name: str) -> None:
    model, all_speak = silent_at(0), silent_at()
    held(model, REFEREES[name](model), rounds=1)
    held(all_speak, REFEREES[name](all_speak), rounds=1)
    judged = [r for r in model.requests if "/role/" not in r.address]
    assert all("Statement of" in r.messages[-1].content for r in judged)
    each = (
        len(
            [r for r in all_speak.requests if "/role/" not in r.address and "rank" not in r.address]
        )
        / 3
    )
    assert len([r for r in judged if "rank" not in r.address]) == 2 * each


@every_order
def test_the_others_read_nothing_of_it(order: str) -> None:
    model = silent_at(0)
    rows = held(model, REFEREES["prompted"](model), order)
    name = rows[0].identity
    later = [r for r in model.asked("/role/") if not r.address.endswith("round/1/role/0")]
    for request in later:
        if "/round/1/" in request.address:
            assert f"{name}:" not in request.messages[-1].content
    for request in model.asked("/round/2/role/1"):
        text = request.messages[-1].content
        assert text.count(f"{name}:") == (1 if order == "sequential" else 0)
        assert f"{rows[1].identity}: {rows[1].text} [mark" in text


def test_a_round_in_which_nobody_speaks_is_not_judged_and_not_shown() -> None:
    model = silent_at(0, 1, 2)
    rows = held(model, PromptedReferee(model, 0))
    assert all(row.failure == "the debater said nothing" for row in rows[:3])
    assert not model.asked("/round/1/score") and not model.asked("/round/1/rank")
    assert all("Round 1" not in r.messages[-1].content for r in model.asked("/round/2/role/"))


def test_a_silent_round_does_not_say_that_the_referee_lacks_probabilities() -> None:
    model = silent_at(0, 1, 2)
    plan = plan_with("bias_types=[age]", "referee.label_source=expected", "debate.rounds=1")
    cast = Cast(plan=plan, run_id="r", models={"debater": model}, referee=PromptedReferee(model, 0))
    rows = asyncio.run(multirole.hold(multirole.items([judgement(1)], plan)[0], cast))
    assert {row.label_source for row in rows} == {"expected"}


@given(seats=st.sets(st.integers(0, 2)), name=st.sampled_from(list(REFEREES)))
def test_ranks_are_those_of_the_statements_that_were_made(seats: set[int], name: str) -> None:
    model = silent_at(*seats)
    rows = held(model, REFEREES[name](model), rounds=1)
    assert [row.role for row in rows if row.rank is None] == sorted(seats)
    assert all(row.rank is None or row.rank <= 3 - len(seats) for row in rows)
