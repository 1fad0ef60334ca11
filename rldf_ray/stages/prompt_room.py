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
        check_answered([row for row in rows if row["split"] == "ppo"], template, plan, "ppo")
    if "eval" in stages:
        held_out = held_out_rows(rows, plan.evaluate.held_out_prompts)
        check_answered(held_out, template, plan, "evaluate")


def check_scored(prompts: Sequence[Mapping[str, Any]], template: ChatTemplate, plan: Plan) -> None:
    """The reward model reads at least a word of every answer.

    It is cut on the right: of a prompt that takes all that it reads, all answers have one reward.

    Args:
        prompts: rows of data/prompts.parquet.

    Raises:
        StageError: it would not.
    """
    around = len(template.closing)
    lengths = [len(template.answer_begins(row["prompt"])) + around for row in prompts]
    longest, too_long = _above(lengths, plan.reward.max_length - 1)
    if too_long:
        raise StageError(
            f"reward.max_length={plan.reward.max_length}: of {too_long} of the {len(prompts)} "
            f"prompts in data/prompts.parquet the reward model would read no word of an answer, "
            f"and reward all answers alike; the longest takes {longest} tokens: "
            + another_run(f"reward.max_length={longest} and the tokens of an answer")
        )


def check_answered(
    prompts: Sequence[Mapping[str, Any]],
    template: ChatTemplate,
    plan: Plan,
    section: Literal["ppo", "evaluate"],
) -> None:
    """Engines hold every prompt and the longest answer.

    Args:
        prompts: rows of data/prompts.parquet.
        section: which of the plan says how long an answer may be.

    Raises:
        StageError: they do not.
    """
    whole = plan.engines.max_model_len
    answer = plan.ppo.max_tokens if section == "ppo" else plan.evaluate.max_tokens
    lengths = [len(template.prompt_ids(row["prompt"])) for row in prompts]
    longest, too_long = _above(lengths, whole - answer)
    if too_long:
        kind = "PPO" if section == "ppo" else "held-out"
        raise StageError(
            f"engines.max_model_len={whole}: {too_long} of {len(prompts)} {kind} prompts do not "
            f"fit beside an answer of {section}.max_tokens={answer}; the longest has {longest} "
            f"tokens: "
            + another_run(f"engines.max_model_len={longest + answer} or more, or shorter answers")
        )


def _above(lengths: Sequence[int], most: int) -> tuple[int, int]:
    """The greatest of the lengths, and how many are above `most`."""
    return max(lengths, default=0), sum(length > most for length in lengths)
