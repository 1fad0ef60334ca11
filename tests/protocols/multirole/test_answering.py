"""Scenes answered by choice: all three answers come up, with a reason where one is asked for."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from rldf_ray.comparison.methods.rlaif import SampledAnswers, answerers_of
from rldf_ray.models.base import ChatRequest
from rldf_ray.plan import Plan
from rldf_ray.protocols import multirole
from rldf_ray.protocols.hold import hold_all
from rldf_ray.protocols.multirole.answering import answering_of, wordings_of
from rldf_ray.protocols.seam import Cast, StatementProtocol
from rldf_ray.records import Debate, Statement
from rldf_ray.referee.prompted import PromptedReferee
from tests.fakes import RecordingModel, judgement, opinion, plan_with

SAMPLED = SampledAnswers(answerers_of)
SOURCES = pytest.mark.parametrize("source", [multirole, SAMPLED], ids=["debates", "rlaif"])


def plan_of(*overrides: str) -> Plan:
    return plan_with("bias_types=[age]", *overrides)


def held(plan: Plan, model: RecordingModel, source: StatementProtocol) -> list[Statement]:
    kept: dict[int, list[Statement]] = {}
    referee = PromptedReferee(model, plan.seed)
    cast = Cast(plan=plan, run_id="r", models={"debater": model}, referee=referee)
    items = multirole.items([opinion(1), judgement(2)], plan)
    asyncio.run(hold_all(source, items, cast, kept.__setitem__))
    return [statement for place in sorted(kept) for statement in kept[place]]


def after_an_answer(request: ChatRequest) -> bool:
    return any(message.role == "assistant" for message in request.messages)


def scenes(plan: Plan) -> list[Debate]:
    return multirole.items([judgement(2)], plan)


@SOURCES
def test_every_answer_to_a_scene_comes_up_and_opinions_are_written(
    source: StatementProtocol,
) -> None:
    plan = plan_of("debate={answers: chosen, rounds: 5, debates: 40}")
    model = RecordingModel()
    statements = held(plan, model, source)
    said = Counter(s.text for s in statements if s.kind == "judgement")
    names = {"The old baker.", "The young baker."}
    unknown = {f"{wordings_of(debate, plan)[0]}." for debate in scenes(plan)}
    assert names < {*said} <= names | unknown and len(said) > 5
    assert min(said["The old baker."], said["The young baker."]) > said.total() / 10
    assert not [r for r in model.asked("/role/") if r.choices and "-o1" in r.address]
    # One request a statement.
    assert len(model.asked("/role/")) == len(statements)
    assert len({s.text for s in statements if s.kind == "opinion"}) > 3


@SOURCES
def test_a_reason_is_asked_for_after_the_answer_that_it_is_of(source: StatementProtocol) -> None:
    plan = plan_of("debate={answers: chosen_with_reason, max_tokens: 33, debates: 4}")
    model = RecordingModel(lambda r: "It rained." if after_an_answer(r) else None)
    statements = [s for s in held(plan, model, source) if s.kind == "judgement"]
    reasons = [*filter(after_an_answer, model.asked("/role/"))]
    assert {r.max_tokens for r in reasons} == {33}
    assert Counter(s.text for s in statements) == Counter(
        f"{r.messages[-2].content} It rained." for r in reasons
    )
    answers = {r.address: r for r in model.asked("/answer")}
    for reason in reasons:
        assert answers[f"{reason.address}/answer"].messages == reason.messages[:-2]
    choice_and_reason = statements[0].generated_tokens
    assert choice_and_reason > 3, "the tokens of both count"


def test_a_reply_that_is_no_choice_is_a_failure_and_no_statement() -> None:
    plan = plan_of("debate={answers: chosen_with_reason, debates: 4}")
    model = RecordingModel(lambda r: "Dear me" if r.choices and "/answer" in r.address else None)
    statements = [s for s in held(plan, model, multirole) if s.kind == "judgement"]
    assert {s.text for s in statements} == {""} and {s.label for s in statements} == {None}
    assert all("did not parse: 'Dear me'" in str(s.failure) for s in statements)
    assert not [*filter(after_an_answer, model.asked("/role/"))]


@SOURCES
def test_the_longest_choice_has_room_and_none_is_cut_off_from(source: StatementProtocol) -> None:
    plan = plan_of("debate={answers: chosen, debates: 4, top_p: 0.5}")
    model = RecordingModel()
    held(plan, model, source)
    for request in model.asked("/answer"):
        assert request.choices is not None and request.top_p == 1.0
        assert request.max_tokens == max(16, *(len(choice.encode()) for choice in request.choices))
    assert {request.top_p for request in model.asked("/role/") if not request.choices} == {0.5}


def test_debates_differ_in_how_they_say_that_it_is_not_known() -> None:
    plan = plan_of("debate={answers: chosen, debates: 60}")
    found = [answering_of(debate, plan) for debate in scenes(plan)]
    assert len({answering.choices[2] for answering in found if answering}) > 8


def test_by_default_statements_are_written_and_runs_go_on_as_what_they_were() -> None:
    plan = plan_of()
    assert answering_of(scenes(plan)[0], plan) is None
    assert plan.digest() == plan_of("debate.answers=written").digest()
    assert plan.digest() != plan_of("debate.answers=chosen").digest()
