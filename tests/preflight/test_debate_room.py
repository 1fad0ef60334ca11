"""Whether debaters' prompts have room is known before the first debate is held."""

from __future__ import annotations

import asyncio

import pytest

from rldf_ray.engines.checks import PreflightError
from rldf_ray.models.base import ChatRequest, Completion
from rldf_ray.models.chat_template import chat_template
from rldf_ray.plan import load_plan, presets
from rldf_ray.preflight.debate_room import check_debate_room, crowded, debate_rooms, described
from rldf_ray.protocols import multirole
from rldf_ray.protocols.multirole.answering import choice_tokens
from rldf_ray.protocols.seam import Cast
from rldf_ray.referee.prompted import PromptedReferee
from rldf_ray.topics.bias_type import bias_type
from rldf_ray.topics.writer import seed_topics, wanted_by_kind
from tests.fakes import RecordingModel, completion, plan_with

PLAN = ("model=embedded", "referee.kind=prompted", "bias_types=[age]")


@pytest.mark.parametrize(
    "changes",
    [
        (),
        ("debate.order=sequential", "debate.layout=paper", "debate.rounds=3"),
        ("topics.judgement_share=1", "debate.answers=chosen"),
        ("topics.judgement_share=1", "debate.answers=chosen_with_reason", "debate.rounds=3"),
        ("topics.judgement_share=0", "debate.examples=6", "debate.debaters=5"),
    ],
)
def test_no_prompt_and_statement_is_longer_than_what_is_said(changes: tuple[str, ...]) -> None:
    """Debates on the longest seeds, in which everybody says as much as the plan allows."""
    plan = plan_with(*PLAN, *changes)
    (room,) = debate_rooms(plan)
    template = chat_template("embedded")
    # Words of one token each, with the blank before them.
    words = " the" * plan.debate.max_tokens
    assert len(template.tokenizer.encode(words, add_special_tokens=False)) == plan.debate.max_tokens

    def answer(request: ChatRequest) -> Completion | None:
        if "/role/" not in request.address or request.choices is not None:
            return None
        return completion(words, finish_reason="length")

    model = RecordingModel(answer)
    cast = Cast(plan=plan, run_id="r", models={"debater": model}, referee=PromptedReferee(model, 0))
    topics = [
        topic
        for kind, number in wanted_by_kind(2, plan.topics.judgement_share).items()
        if number
        for topic in seed_topics(bias_type("age"), kind, plan)
        if topic.split == "debate"
    ]
    for debate in multirole.items(topics, plan):
        asyncio.run(multirole.hold(debate, cast))
    lengths = []
    for request in model.asked("/role/"):
        messages = [{"role": m.role, "content": m.content} for m in request.messages]
        lengths.append(len(template.prompt_ids(messages)) + request.max_tokens)
    assert max(lengths) <= room.most and room.least <= min(lengths)
    assert max(lengths) > 0.5 * room.most


def test_what_must_fail_is_an_error_and_what_may_is_said() -> None:
    fits = plan_with(*PLAN, "engines.max_model_len=2048")
    (room,) = check_debate_room(fits)
    assert crowded(fits, [room]) == "" and f"{room.most} tokens at most" in described(fits)
    tight = plan_with(*PLAN, f"engines.max_model_len={room.most - 1}")
    said = crowded(tight, check_debate_room(tight))
    assert said == described(tight)
    for part in ("debate.max_tokens=32", "debate.rounds=2", f"{room.most} tokens", "embedded"):
        assert part in said
    assert crowded(fits, [room]) == ""
    least = plan_with(*PLAN, f"engines.max_model_len={room.least}")
    check_debate_room(least)
    none = plan_with(*PLAN, f"engines.max_model_len={room.least - 1}")
    with pytest.raises(PreflightError, match=rf"at least {room.least} tokens on embedded"):
        check_debate_room(none)


@pytest.mark.parametrize("change", ["teacher=openai:m", "teacher=scripted:0", "mabrf"])
def test_nothing_is_said_of_models_that_are_elsewhere_and_of_other_protocols(change: str) -> None:
    plan = plan_with(*PLAN, f"debate.protocol={change}" if change == "mabrf" else change)
    assert debate_rooms(plan) == [] and described(plan).startswith("not known")


@pytest.mark.parametrize("name", ["opinions", "smoke", "quickstart", "bbq-small"])
def test_the_presets_on_the_embedded_model_have_room(name: str) -> None:
    assert name in presets()
    plan = load_plan(name)
    assert crowded(plan, check_debate_room(plan)) == ""


def test_a_choice_has_room_whatever_tokens_it_takes() -> None:
    template = chat_template("embedded")
    long = (
        "Die Großmutter vom Öschberg, die vor der Bäckerei stand.",
        "长者在面包店门口等着年轻人。",
    )
    for choice in long:
        ids = template.tokenizer.encode(choice, add_special_tokens=False)
        assert len(ids) > 16 and len(ids) <= choice_tokens([choice])
    assert choice_tokens(["The old baker.", "Unknown."]) == 16
