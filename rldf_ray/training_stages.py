"""SFT, reward model and PPO, each a training job on the cluster into a folder of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from rldf_ray.cluster import on_one_node, remote
from rldf_ray.records import topics_of
from rldf_ray.report.notes import reward_notes
from rldf_ray.report.parts import reward_part
from rldf_ray.stages import Facts, Run

TRAINING = ("referee", "sft", "reward", "ppo")


def sft(run: Run) -> Facts:
    """Low-bias statements -> sft/model."""
    from rldf_ray.train.sft import train_sft

    facts = train_in_folder(run, "sft", train_sft, {"model": run.plan.model})
    return {"examples": run.folder.read_table("data/sft.parquet").num_rows, **facts}


def reward(run: Run) -> Facts:
    """Preference pairs -> reward/model, fitted from pi_SFT or from the plan's model."""
    from rldf_ray.train.reward import held_out_topics, train_reward

    topics_of_pairs = run.folder.read_table("data/pairs.parquet")["topic_id"].to_pylist()
    held_out = held_out_topics(topics_of_pairs, run.plan.reward.held_out_share)
    number = sum(topic in held_out for topic in topics_of_pairs)
    facts = {
        "pairs": len(topics_of_pairs) - number,
        "held_out_pairs": number,
        **train_in_folder(run, "reward", train_reward, _reward_start(run)),
        "undebated": _asked_about_undebated_scenes(run),
    }
    # Said here too, as PPO is what costs most.
    for note in reward_notes(reward_part(facts)):
        run.story.say(f"  {note}")
    return facts


def _reward_start(run: Run) -> dict[str, str]:
    if run.plan.reward.start == "model":
        return {"model": run.plan.model}
    if run.plan.train.lora.rank:
        # PPO computes all its adapters on one base, so pi_SFT is the base and its adapter here too.
        return {"model": run.plan.model, "adapter": run.folder.address("sft/adapter")}
    return {"model": run.folder.address("sft/model")}


def _asked_about_undebated_scenes(run: Run) -> Facts | None:
    """What the new reward model makes of answers to scenes of the other splits."""
    import ray

    from rldf_ray.evaluate.undebated import undebated_rewards, undebated_scenes, undebated_summary

    scenes = undebated_scenes(
        run.folder.read_table("data/prompts.parquet").to_pylist(),
        topics_of(run.folder.read_table("data/topics.parquet")),
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


def ppo(run: Run) -> Facts:
    """PPO from pi_SFT against the reward model -> ppo/model, and model/ for its users."""
    from rldf_ray.train.lora import adapters_in_engines
    from rldf_ray.train.ppo import train_ppo

    folders = {
        "model": run.plan.model,
        "sft": run.folder.address("sft/model"),
        "reward": run.folder.address("reward/model"),
    }
    rank = run.plan.train.lora.rank
    adapters = adapters_in_engines(run.placement, run.plan.train.lora)
    start = folders["model" if adapters else "sft"]
    if rank:
        # Looked for beside the merged models, so they have to be on the worker's machine too.
        folders |= {
            f"{stage} adapter": run.folder.address(f"{stage}/adapter")
            for stage in ("sft", "reward")
        }
    run = replace(run, placement=on_one_node(run.placement))
    with run.policy_engines(start, "sft", run.plan.ppo.dtype, rank if adapters else 0) as pool:
        facts = train_in_folder(run, "ppo", train_ppo, folders, {"pool": pool})
    history = facts["history"]
    facts["episodes"] = run.plan.ppo.episodes
    facts["tokens"] = {
        "prompt": int(sum(step["prompt_tokens"] for step in history)),
        "cached": 0,
        "generated": int(sum(step["generated_tokens"] for step in history)),
    }
    return facts


def train_in_folder(
    run: Run,
    name: str,
    train: Callable[..., list[dict[str, Any]]],
    folders: Mapping[str, str],
    extra: Mapping[str, Any] | None = None,
) -> Facts:
    """One training job into the stage's own folder, on "data" unless `folders` names another.

    A job that was cut off goes on from its last checkpoint, or begins again where it wrote none;
    one that had ended, in a stage that had not, is not done again.
    """
    from rldf_ray.train.worker import TrainJob

    ended = f"{name}/trained.json"
    if run.folder.fetched(ended).exists():
        run.story.say(f"  {name}: trained before")
        return dict(run.folder.read_json(ended))
    if run.plan.train.checkpoint_every is None:
        run.folder.fresh_folder(name)
    run.folder.path(f"{name}/model")
    job = TrainJob(
        run.plan,
        run.placement,
        {"data": run.folder.address("data"), **folders, "out": run.folder.address(name)},
        extra or {},
    )
    with run.story.bar(f"{name} steps", 1) as bar:
        history = train(job, on_progress=bar.update)
    for scrap in ("trainer", "ray_train"):
        run.folder.remove(f"{name}/{scrap}")
    run.folder.write_json(ended, {"history": history})
    run.folder.shared(ended)
    return {"history": history}
