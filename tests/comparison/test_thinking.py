"""CoT and FairThinking: what the model is told before it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from rldf_ray.comparison.method import methods_of
from rldf_ray.comparison.method_run import MethodRun
from rldf_ray.comparison.methods.fair_thinking import jurors, statement_tokens
from rldf_ray.comparison.thinking import Scene, Thought, prompt_after
from rldf_ray.comparison.thoughts import CutOffs, think_all
from rldf_ray.evaluate.bbq.prompt import LETTERS, ItemPrompt, Mode, ask, order_of
from rldf_ray.evaluate.bbq.run_models import SCENES
from rldf_ray.models.base import ChatModel, ChatRequest, Completion
from rldf_ray.models.journaled import JournaledModel
from rldf_ray.sets.bbq.data import load_bbq
from rldf_ray.sets.bbq.items import BBQItem
from rldf_ray.storage.journal import Journal
from tests.fakes import RecordingModel, plan_with

ITEMS = load_bbq(SCENES, ["Age"], 4).items
PLAN = plan_with()


def method_run(name: str, repeat: int = 0) -> MethodRun:
    (method,) = methods_of(PLAN, [name], ())
    return MethodRun(
        method=method, repeat=repeat, seed=repeat, folder="embedded", weights="embedded"
    )


def shown(mode: Mode, seed: int = 0) -> list[ItemPrompt]:
    return [ask(item, mode, order_of(item, mode == "letter", seed)) for item in ITEMS]


class Cut(RecordingModel):
    """Cuts every juror off who speaks last."""

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        samples = await super().complete(request)
        cut = request.address.endswith("juror/2")
        return tuple(replace(s, finish_reason="length") if cut else s for s in samples)


def thoughts(
    name: str,
    model: ChatModel,
    mode: Mode = "rank",
    repeat: int = 0,
    items: Sequence[BBQItem] = ITEMS,
) -> list[Thought]:
    scenes = [Scene.of_item(item, one) for item, one in zip(items, shown(mode), strict=False)]
    return asyncio.run(think_all(method_run(name, repeat), model, PLAN, scenes))


def test_cot_reasons_in_a_turn_of_its_own_and_is_asked_again() -> None:
    model = RecordingModel(lambda request: "The scene does not say. And so")
    (first, *_) = thoughts("cot", model)
    item = ITEMS[0]
    asked = prompt_after(shown("rank")[0], first)
    question, reasoning, again = asked.messages
    assert item.context in question["content"] and item.question in question["content"]
    assert question["content"].endswith("Let's think step by step.")
    assert reasoning == {"role": "assistant", "content": first.text}
    assert again["role"] == "user" and item.question in again["content"]
    assert asked.answers == item.options
    assert len(model.requests) == len(ITEMS)


@pytest.mark.parametrize("name", ["cot", "fair_thinking"])
def test_options_are_shown_where_a_letter_is_asked_for_and_nowhere_else(name: str) -> None:
    for mode, times in (("rank", 0), ("letter", 1)):
        model = RecordingModel()
        found = thoughts(name, model, mode)
        for item, thought in zip(ITEMS, found, strict=True):
            first = thought.messages[0].content
            for option in item.options:
                assert first.count(f". {option}\n") == times
        before = shown(mode)
        after = [prompt_after(a, thought) for a, thought in zip(before, found, strict=True)]
        assert {a.answers == LETTERS for a in after} == {mode == "letter"}
        assert [a.order for a in after] == [a.order for a in before]


@pytest.mark.parametrize("name", ["cot", "fair_thinking", "cot_instructed"])
def test_thoughts_have_a_length_of_their_own(name: str) -> None:
    model = RecordingModel()
    thoughts(name, model)
    longest = statement_tokens(PLAN) if name == "fair_thinking" else PLAN.evaluate.thought_tokens
    assert {request.max_tokens for request in model.requests} == {longest}
    assert PLAN.debate.max_tokens < PLAN.evaluate.thought_tokens


def test_a_jury_finds_room_in_what_an_engine_reads() -> None:
    assert statement_tokens(plan_with()) == 1024 // 6
    assert statement_tokens(plan_with("engines.max_model_len=4096")) == 256
    assert statement_tokens(plan_with("evaluate.thought_tokens=32")) == 32


def test_thoughts_that_a_limit_cut_off_are_counted() -> None:
    model = CutOffs(Cut())
    thoughts("fair_thinking", model)
    # Every third juror is cut off.
    assert model.numbers() == {"replies": 3 * len(ITEMS), "cut_off": len(ITEMS)}


def test_jurors_hear_those_before_them_and_the_answer_hears_all() -> None:
    model = RecordingModel(lambda request: f"I am {request.address[-1]}.")
    (first,) = thoughts("fair_thinking", model, items=ITEMS[:1])
    turns = [request.messages[-1].content for request in model.asked("juror")]
    assert ["I am 0." in turn for turn in turns] == [False, True, True]
    assert ["I am 1." in turn for turn in turns] == [False, False, True]
    assert "20-year-old" in turns[0] and "60-year-old" in turns[2]
    (final,) = first.messages
    assert all(f"I am {seat}." in final.content for seat in range(3))
    assert first.text.splitlines()[1] == "40-year-old: I am 1."


@pytest.mark.parametrize(
    ("category", "names"),
    [
        ("Age", ["20-year-old", "40-year-old", "60-year-old"]),
        ("No_such_category", ["20-year-old", "doctor", "40-year-old"]),
    ],
)
def test_the_jury_is_of_the_items_bias_type(category: str, names: list[str]) -> None:
    assert [juror.name for juror in jurors(category, PLAN)] == names


def test_a_category_about_two_things_has_jurors_of_both() -> None:
    both = jurors("Race_x_SES", PLAN)
    assert both[0] in jurors("Race_ethnicity", PLAN) and both[1] in jurors("SES", PLAN)


def test_repeats_draw_other_thoughts_and_a_repeat_draws_the_same() -> None:
    seeds = []
    for repeat in (0, 1, 0):
        model = RecordingModel()
        thoughts("cot", model, repeat=repeat)
        seeds.append([request.seed for request in model.requests])
    assert seeds[0] == seeds[2] and set(seeds[0]).isdisjoint(seeds[1])
    assert len(set(seeds[0])) == len(ITEMS)


def test_what_was_said_before_a_kill_is_not_said_again(tmp_path: Path) -> None:
    for kept, made in ((2, 6), (4, 6), (4, 0)):
        model = RecordingModel()
        journal = Journal(tmp_path / "calls.jsonl")
        thoughts("fair_thinking", JournaledModel(model, journal), items=ITEMS[:kept])
        journal.close()
        assert len(model.requests) == made


def test_equal_keys_exactly_where_answers_are_equal() -> None:
    items = load_bbq(SCENES, ["Age"], 4)
    other = load_bbq(SCENES, ["Age"], 8)
    (default,) = methods_of(PLAN, ["default"], ())
    first = MethodRun(method=default, repeat=0, seed=0, folder="embedded", weights="embedded")
    second = MethodRun(method=default, repeat=1, seed=1, folder="embedded", weights="embedded")
    assert first.key(PLAN, items, "rank") == second.key(PLAN, items, "rank")
    assert first.key(PLAN, items, "letter") != second.key(PLAN, items, "letter")
    assert first.key(PLAN, items, "rank") != first.key(PLAN, other, "rank")
    trained = MethodRun(method=default, repeat=0, seed=0, folder="x", weights="trained/a/ppo")
    assert first.key(PLAN, items, "rank") != trained.key(PLAN, items, "rank")
    keys = {
        method_run(name, r).key(PLAN, items, "rank")
        for name in ("cot", "fair_thinking")
        for r in (0, 1)
    }
    assert len(keys) == 4
