"""Whether prompts leave room for their answers, asked before any model is trained."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rldf_ray.models.chat_template import ChatTemplate, chat_template
from rldf_ray.plan import Plan
from rldf_ray.records import PROMPT_SCHEMA
from rldf_ray.stages.run import Run, StageError


def check_prompts(run: Run, stages: Collection[str]) -> None:
    """The prompts of data/prompts.parquet leave room in the reward model and in PPO's engines.

    Args:
        stages: those that are going to be done: others need no such room.

    Raises:
        StageError: one does not.
    """
    if not {"reward", "ppo"} & {*stages}:
        return
    rows = run.folder.read_table("data/prompts.parquet", PROMPT_SCHEMA).to_pylist()
    template = chat_template(run.plan.model, run.plan.chat_template_kwargs)
    check_scored(rows, template, run.plan)
    if "ppo" in stages:
        check_answered([row for row in rows if row["split"] == "ppo"], template, run.plan)


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
            f"and reward all answers alike; the longest takes {longest} tokens: begin another run "
            f"with reward.max_length={longest} and the tokens of an answer"
        )


def check_answered(
    prompts: Sequence[Mapping[str, Any]], template: ChatTemplate, plan: Plan
) -> None:
    """Engines hold every prompt and PPO's longest answer.

    Args:
        prompts: rows of data/prompts.parquet.

    Raises:
        StageError: they do not.
    """
    room = plan.engines.max_model_len - plan.ppo.max_tokens
    lengths = [len(template.prompt_ids(row["prompt"])) for row in prompts]
    longest, too_long = _above(lengths, room)
    if too_long:
        raise StageError(
            f"engines.max_model_len={plan.engines.max_model_len}: {too_long} of {len(prompts)} PPO "
            f"prompts do not fit beside an answer of ppo.max_tokens={plan.ppo.max_tokens}; the "
            f"longest has {longest} tokens: begin another run with engines.max_model_len="
            f"{longest + plan.ppo.max_tokens} or more"
        )


def _above(lengths: Sequence[int], most: int) -> tuple[int, int]:
    """The greatest of the lengths, and how many are above `most`."""
    return max(lengths, default=0), sum(length > most for length in lengths)
