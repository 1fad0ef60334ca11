"""Prompts that leave no room for an answer are refused before anything is trained."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from rldf_ray.dataset.preference_data import prompts_table
from rldf_ray.models.chat_template import ChatTemplate, chat_template
from rldf_ray.plan import load_plan, presets
from rldf_ray.records import PROMPT_SCHEMA, TopicKind
from rldf_ray.stages.data import check_splits
from rldf_ray.stages.prompt_room import (
    answers_cut,
    check_answered,
    check_prompts,
    check_scored,
)
from rldf_ray.stages.run import StageError
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.topics.bias_type import bias_type
from rldf_ray.topics.writer import seed_topics
from tests.fakes import opinion, plan_with
from tests.train.tiny import prompt_rows, tiny_tokenizer

KINDS: tuple[TopicKind, ...] = ("opinion", "judgement")


def rows_of(*words: int) -> list[dict[str, Any]]:
    """Prompts of so many words; each has four tokens of the template around them."""
    return [{"prompt": [{"role": "user", "content": " ".join(["w1"] * n)}]} for n in words]


def test_a_prompt_of_which_no_answer_would_be_read_is_counted_with_its_length() -> None:
    template = ChatTemplate(tiny_tokenizer())
    begun = len(template.answer_begins(rows_of(10)[0]["prompt"])) + len(template.closing)
    check_scored(rows_of(3, 10), template, plan_with(f"reward.max_length={begun + 1}"))
    with pytest.raises(StageError, match=rf"of 2 of the 3 prompts .* takes {begun + 3} tokens"):
        check_scored(rows_of(3, 10, 13), template, plan_with(f"reward.max_length={begun}"))
    check_scored([], template, plan_with())


def test_prompts_whose_answers_are_not_read_to_their_end_are_counted() -> None:
    template = ChatTemplate(tiny_tokenizer())
    around = len(template.answer_begins(rows_of(10)[0]["prompt"])) + len(template.closing)
    whole = plan_with(f"reward.max_length={around + 32}", "ppo.max_tokens=32")
    assert answers_cut(rows_of(3, 10), template, whole, "ppo") is None
    cut = plan_with(f"reward.max_length={around + 31}", "ppo.max_tokens=32")
    said = answers_cut(rows_of(3, 10), template, cut, "ppo")
    assert said is not None and "to 1 of 2 PPO prompts" in said
    assert f"another run with reward.max_length={around + 32}" in said
    evaluated = plan_with(f"reward.max_length={around + 31}", "evaluate.max_tokens=32")
    said = answers_cut(rows_of(3, 10), template, evaluated, "evaluate")
    assert said is not None and "of 2 held-out prompts" in said and "evaluate.max_tokens=32" in said


@pytest.mark.parametrize(
    ("stages", "rewards", "number"),
    [
        (("reward", "ppo"), "[{model: reward}]", 1),
        (("reward", "ppo", "eval"), "[{model: reward}]", 2),
        (("ppo",), "[{python: 'm.py:f'}]", 0),
        (("eval",), "[{model: reward}]", 0),
    ],
)
def test_a_run_says_whose_answers_a_reward_model_does_not_read_whole(
    stages: tuple[str, ...], rewards: str, number: int, tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path)
    topics = [opinion(0, split="ppo"), opinion(1, split="eval")]
    folder.write_table("data/prompts.parquet", prompts_table(topics))
    plan = plan_with(
        "reward.max_length=128", "ppo.max_tokens=120", "evaluate.max_tokens=120",
        f"ppo.rewards={rewards}",
    )  # fmt: skip
    said: list[str] = []
    run: Any = SimpleNamespace(folder=folder, plan=plan, progress=SimpleNamespace(say=said.append))
    check_prompts(run, stages)
    assert len(said) == number
    assert all(line.startswith("  warning: reward.max_length=128") for line in said)


def test_one_more_token_than_is_refused_can_be_told_apart() -> None:
    """The least length that is let through leaves the first word of an answer."""
    template = ChatTemplate(tiny_tokenizer())
    prompt = rows_of(10)[0]["prompt"]
    chats = [template.answered(prompt, word) for word in ("w5", "w6")]
    length = len(template.answer_begins(prompt)) + len(template.closing)
    assert chats[0].cut(length) == chats[1].cut(length)
    assert chats[0].cut(length + 1) != chats[1].cut(length + 1)


def test_a_prompt_that_engines_cannot_answer_is_counted_with_its_length() -> None:
    template = ChatTemplate(tiny_tokenizer())
    length = len(template.prompt_ids(rows_of(120)[0]["prompt"]))
    plan = plan_with("ppo.max_tokens=32", f"engines.max_model_len={length + 32}")
    check_answered(rows_of(3, 120), template, plan, "ppo")
    with pytest.raises(StageError, match=rf"1 of 2 PPO prompts .*max_model_len={length + 33}"):
        check_answered(rows_of(3, 121), template, plan, "ppo")
    held_out = plan_with("evaluate.max_tokens=32", f"engines.max_model_len={length + 32}")
    check_answered(rows_of(3, 120), template, held_out, "evaluate")
    with pytest.raises(StageError, match=r"1 of 2 held-out prompts .*evaluate\.max_tokens=32"):
        check_answered(rows_of(3, 121), template, held_out, "evaluate")


def test_presets_leave_room_for_answers_to_their_own_seeds() -> None:
    template = chat_template("embedded")
    for name in presets():
        plan = load_plan(name)
        seeds = [
            topic
            for bias in plan.bias_types
            for kind in KINDS
            for topic in seed_topics(bias_type(bias), kind, plan)
        ]
        prompts = prompts_table([replace(topic, split="ppo") for topic in seeds]).to_pylist()
        check_scored(prompts, template, plan)
        check_answered(prompts, template, plan, "ppo")
        check_answered(prompts, template, plan, "evaluate")
        assert answers_cut(prompts, template, plan, "ppo") is None
        assert answers_cut(prompts, template, plan, "evaluate") is None


@pytest.mark.parametrize(
    ("stages", "said"),
    [
        (("sft",), None),
        (("dpo", "eval"), None),
        (("sft", "reward"), "reward.max_length"),
        (("ppo",), "reward.max_length"),
    ],
)
def test_only_stages_that_reward_answers_need_room_for_them(
    stages: tuple[str, ...], said: str | None, tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path)
    folder.write_table("data/prompts.parquet", prompts_table([opinion(0, split="ppo")]))
    run: Any = SimpleNamespace(folder=folder, plan=plan_with("reward.max_length=16"))
    if said is None:
        check_prompts(run, stages)
        return
    with pytest.raises(StageError, match=said):
        check_prompts(run, stages)


@pytest.mark.parametrize("stages", [("sft", "dpo", "eval"), ("sft", "kto", "eval"), ("eval",)])
def test_held_out_prompts_have_room_before_anything_is_trained(
    stages: tuple[str, ...], tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path)
    topics = [opinion(0, split="ppo"), opinion(1, split="eval"), opinion(2, split="eval")]
    folder.write_table("data/prompts.parquet", prompts_table(topics))
    plan = plan_with("evaluate.max_tokens=1000", "engines.max_model_len=1024", "train.after=[dpo]")
    run: Any = SimpleNamespace(folder=folder, plan=plan)
    with pytest.raises(StageError, match=r"2 of 2 held-out prompts .*evaluate\.max_tokens=1000"):
        check_prompts(run, stages)
    check_prompts(run, ("sft", "dpo"))


def test_as_many_held_out_prompts_as_there_are_leave_none_for_ppo() -> None:
    rows = [
        {**row, "bias_type": "age", "kind": "opinion", "clue_shown": False, "split": split}
        for split in ("ppo", "eval")
        for row in prompt_rows(4)
    ]
    prompts = pa.Table.from_pylist(rows, schema=PROMPT_SCHEMA)
    check_splits(prompts, plan_with("ppo.held_out_prompts=3"))
    check_splits(prompts, plan_with("ppo.held_out_prompts=4", "train.after=[dpo]"))
    with pytest.raises(StageError, match=r"ppo\.held_out_prompts=4 leaves none of 4 PPO prompts"):
        check_splits(prompts, plan_with("ppo.held_out_prompts=4"))
