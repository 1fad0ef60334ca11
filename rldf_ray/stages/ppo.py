"""The PPO stage: the policy learns from the reward model."""

from __future__ import annotations

from dataclasses import replace

from rldf_ray.cluster.ray_cluster import on_one_node
from rldf_ray.stages.run import Run
from rldf_ray.stages.training import train_in_folder
from rldf_ray.storage.results import PPOResult


def ppo(run: Run) -> PPOResult:
    """PPO from pi_SFT against the reward model -> ppo/model, and model/ for its users."""
    from rldf_ray.train.lora import adapters_in_engines
    from rldf_ray.train.ppo.loop import train_ppo

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
    with run.policy_engines(
        start,
        "sft",
        run.plan.ppo.dtype,
        rank if adapters else 0,
        # The trainer's are tempered: importance weights compare one distribution with itself.
        tempered_logprobs=run.plan.ppo.temperature != 1,
    ) as pool:
        history = train_in_folder(run, "ppo", train_ppo, folders, {"pool": pool})
    tokens = {
        "prompt": int(sum(step["prompt_tokens"] for step in history)),
        "cached": 0,
        "generated": int(sum(step["generated_tokens"] for step in history)),
    }
    return PPOResult(history=history, episodes=run.plan.ppo.episodes, tokens=tokens)
