"""The reward stage: a reward model learns the preference pairs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pyarrow as pa
from msgspec import UNSET, UnsetType

from rldf_ray.cluster.ray_cluster import remote
from rldf_ray.records import PAIR_SCHEMA, SFT_SCHEMA, TOPIC_SCHEMA, topics_of
from rldf_ray.stages.run import Run
from rldf_ray.stages.training import train_in_folder
from rldf_ray.storage.results import RewardResult

_TOPIC = pa.schema([PAIR_SCHEMA.field("topic_id")])
_OF_EXAMPLES = pa.schema([SFT_SCHEMA.field("topic_id")])


def reward(run: Run) -> RewardResult:
    """Preference pairs -> reward/model, fitted from pi_SFT or from the plan's model."""
    from rldf_ray.train.held_out import HELD_OUT, read_right
    from rldf_ray.train.lengths import ROWS, rows_used
    from rldf_ray.train.reward import held_out_topics, train_reward

    history = train_in_folder(run, "reward", train_reward, _reward_start(run))
    rows = rows_used(run.folder.fetched(f"reward/{ROWS}"))
    topics_of_pairs = run.folder.read_table("data/pairs.parquet", _TOPIC)["topic_id"].to_pylist()
    held_out = held_out_topics(topics_of_pairs, run.plan.reward.held_out_share)
    number = sum(topic in held_out for topic in topics_of_pairs)
    return RewardResult(
        pairs=rows.used if rows else len(topics_of_pairs) - number,
        held_out_pairs=rows.held_out if rows else number,
        too_long=rows.too_long if rows else UNSET,
        right_by_topic=read_right(run.folder.fetched(f"reward/{HELD_OUT}")) or UNSET,
        history=history,
        held_out_taught=_taught(run, held_out),
        undebated=_asked_about_undebated_scenes(run),
    )


def _taught(run: Run, held_out: Collection[str]) -> int | UnsetType:
    """On how many of the held-out topics pi_SFT, which the reward model began as, has learned."""
    from rldf_ray.train.reward import held_out_topics

    if run.plan.reward.start != "sft":
        return UNSET
    topics = run.folder.read_table("data/sft.parquet", _OF_EXAMPLES)["topic_id"].to_pylist()
    aside = held_out_topics(topics, run.plan.sft.held_out_share)
    return len((set(topics) - aside) & {*held_out})


def _reward_start(run: Run) -> dict[str, str]:
    if run.plan.reward.start == "model":
        return {"model": run.plan.model}
    if run.plan.train.lora.rank:
        # PPO computes all its adapters on one base, so pi_SFT is the base and its adapter here too.
        return {"model": run.plan.model, "adapter": run.folder.address("sft/adapter")}
    return {"model": run.folder.address("sft/model")}


def _asked_about_undebated_scenes(run: Run) -> dict[str, Any] | None:
    """What the new reward model makes of answers to scenes that PPO is given."""
    import ray

    from rldf_ray.evaluate.held_out.undebated import (
        undebated_rewards,
        undebated_scenes,
        undebated_summary,
    )

    scenes = undebated_scenes(
        run.folder.read_table("data/prompts.parquet").to_pylist(),
        topics_of(run.folder.read_table("data/topics.parquet", TOPIC_SCHEMA)),
        run.plan.debate.unknown,
    )
    if not scenes:
        return None
    rewards = ray.get(
        remote(undebated_rewards, run.placement).remote(
            run.folder.address("reward/model"),
            scenes,
            device=run.placement.device,
            threads=run.placement.threads,
            max_length=run.plan.reward.max_length,
        )
    )
    return undebated_summary(rewards)
