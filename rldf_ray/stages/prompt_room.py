"""Whether prompts leave room for their answers, asked before any model is trained."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from rldf_ray.evaluate.held_out.answers import held_out_rows
from rldf_ray.models.chat_template import ChatTemplate, chat_template
from rldf_ray.plan import Plan
from rldf_ray.plan.saved import another_run
from rldf_ray.records import PROMPT_SCHEMA
from rldf_ray.stages.run import Run, StageError

Answering = Literal["ppo", "evaluate"]
"""Sections of the plan that say how long an answer may be."""


def check_prompts(run: Run, stages: Collection[str]) -> None:
    """The prompts of data/prompts.parquet leave room in the reward model and in the engines.

    Args:
        stages: those that are going to be done: others need no such room.

    Raises:
        StageError: one does not.
    """
    if not {"reward", "ppo", "eval"} & {*stages}:
        return
    plan = run.plan
    rows = run.folder.read_table("data/prompts.parquet", PROMPT_SCHEMA).to_pylist()
    template = chat_template(plan.model, plan.chat_template_kwargs)
    if {"reward", "ppo"} & {*stages}:
        check_scored(rows, template, plan)
    if "ppo" in stages:
        asked = [row for row in rows if row["split"] == "ppo"]
        check_answered(asked, template, plan, "ppo")
        if any(source.model for source in plan.ppo.rewards):
            _say_if_cut(run, asked, template, "ppo")
    if "eval" in stages:
        held_out = held_out_rows(rows, plan.evaluate.held_out_prompts)
        check_answered(held_out, template, plan, "evaluate")
        if "reward" in stages or run.folder.manifest("reward"):
            _say_if_cut(run, held_out, template, "evaluate")


def _say_if_cut(
    run: Run, prompts: Sequence[Mapping[str, Any]], template: ChatTemplate, section: Answering
) -> None:
    if cut := answers_cut(prompts, template, run.plan, section):
        run.progress.say(f"  warning: {cut}")


def check_scored(prompts: Sequence[Mapping[str, Any]], template: ChatTemplate, plan: Plan) -> None:
    """The reward model reads at least a word of every answer.

    It is cut on the right: of a prompt that takes all that it reads, all answers have one reward.

    Args:
        prompts: rows of data/prompts.parquet.

    Raises:
        StageError: it would not.
    """
    longest, too_long = _above(_read_around_answers(prompts, template), plan.reward.max_length - 1)
    if too_long:
        raise StageError(
            f"reward.max_length={plan.reward.max_length}: of {too_long} of the {len(prompts)} "
            f"prompts in data/prompts.parquet the reward model would read no word of an answer, "
            f"and reward all answers alike; the longest takes {longest} tokens: "
            + another_run(f"reward.max_length={longest} and the tokens of an answer")
        )


def answers_cut(
    prompts: Sequence[Mapping[str, Any]],
    template: ChatTemplate,
    plan: Plan,
    section: Answering,
) -> str | None:
    """What to say of prompts to which the reward model does not read the longest answer whole.

    Args:
        prompts: rows of data/prompts.parquet.
        section: which of the plan says how long an answer may be.

    Returns:
        None where there are none.
    """
    answer, kind = _longest_answer(plan, section)
    longest, cut = _above(_read_around_answers(prompts, template), plan.reward.max_length - answer)
    if not cut:
        return None
    return (
        f"reward.max_length={plan.reward.max_length}: to {cut} of {len(prompts)} {kind} prompts "
        f"the reward model does not read an answer of {section}.max_tokens={answer} to its end, "
        "and does not reward what it does not read; to have all read, "
        + another_run(f"reward.max_length={longest + answer}, or shorter answers")
    )


def _read_around_answers(prompts: Sequence[Mapping[str, Any]], template: ChatTemplate) -> list[int]:
    """Tokens that the reward model reads besides the answer to each prompt."""
    around = len(template.closing)
    return [len(template.answer_begins(row["prompt"])) + around for row in prompts]


def check_answered(
    prompts: Sequence[Mapping[str, Any]],
    template: ChatTemplate,
    plan: Plan,
    section: Answering,
) -> None:
    """Engines hold every prompt and the longest answer.

    Args:
        prompts: rows of data/prompts.parquet.
        section: which of the plan says how long an answer may be.

    Raises:
        StageError: they do not.
    """
    whole = plan.engines.max_model_len
    answer, kind = _longest_answer(plan, section)
    lengths = [len(template.prompt_ids(row["prompt"])) for row in prompts]
    longest, too_long = _above(lengths, whole - answer)
    if too_long:
        raise StageError(
            f"engines.max_model_len={whole}: {too_long} of {len(prompts)} {kind} prompts do not "
            f"fit beside an answer of {section}.max_tokens={answer}; the longest has {longest} "
            f"tokens: "
            + another_run(f"engines.max_model_len={longest + answer} or more, or shorter answers")
        )


def _longest_answer(plan: Plan, section: Answering) -> tuple[int, str]:
    """Tokens, and what the prompts that are answered so are called."""
    if section == "ppo":
        return plan.ppo.max_tokens, "PPO"
    return plan.evaluate.max_tokens, "held-out"


def _above(lengths: Sequence[int], most: int) -> tuple[int, int]:
    """The greatest of the lengths, and how many are above `most`."""
    return max(lengths, default=0), sum(length > most for length in lengths)
