"""The PPO stage: the policy learns from the reward model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rldf_ray.cluster.nodes import for_ppo
from rldf_ray.stages.run import Run, StageError
from rldf_ray.stages.training import train_in_folder
from rldf_ray.storage.digest import digest
from rldf_ray.storage.results import PPOResult
from rldf_ray.storage.stages import begins_as

REWARDS = "ppo/rewards.json"
"""Hashes of the functions' files, by what the plan says of them."""
ASKED = "rewards-*.jsonl"
"""What reward servers were asked; a PPO that begins again asks for none of it again."""


def ppo(run: Run) -> PPOResult:
    """PPO from pi_SFT, or the policy before it, against the reward model -> ppo/model."""
    from rldf_ray.train.lora import adapters_in_engines
    from rldf_ray.train.ppo.loop import train_ppo
    from rldf_ray.train.ppo.reward_functions import reward_texts

    before = begins_as("ppo", run.plan.train.after)
    folders = {
        "model": run.plan.model,
        "sft": run.folder.address(f"{before}/model"),
        "reward": run.folder.address("reward/model"),
    }
    texts = reward_texts(run.plan.ppo.rewards)
    _settle_rewards(run, texts)
    rank = run.plan.train.lora.rank
    adapters = adapters_in_engines(run.placement, run.plan.train.lora)
    # Engines are sent the policy's adapter before they answer.
    start = folders["model" if rank else "sft"]
    if rank:
        # Looked for beside the merged models, so they have to be on the worker's machine too.
        folders |= {
            "sft adapter": run.folder.address(f"{before}/adapter"),
            "reward adapter": run.folder.address("reward/adapter"),
        }
    run = replace(run, placement=for_ppo(run.placement))
    if run.placement.engine_homes:
        run.progress.say("  no node holds engines and workers: weights are sent to the engines")
    with run.policy_engines(
        start,
        "sft",
        run.plan.ppo.dtype,
        rank if adapters else 0,
        # The trainer's are tempered: importance weights compare one distribution with itself.
        tempered_logprobs=run.plan.ppo.temperature != 1,
    ) as pool:
        history = train_in_folder(
            run, "ppo", train_ppo, folders, {"pool": pool, "reward_texts": texts}, kept=ASKED
        )
    tokens = {
        "prompt": int(sum(step["prompt_tokens"] for step in history)),
        "cached": 0,
        "generated": int(sum(step["generated_tokens"] for step in history)),
    }
    return PPOResult(history=history, episodes=run.plan.ppo.episodes, tokens=tokens)


def _settle_rewards(run: Run, texts: Mapping[str, str]) -> None:
    """Make the reward functions' texts the stage's own; one that was cut off goes on with them.

    Raises:
        StageError: a function's file has changed since.
    """
    now = {named: digest(text) for named, text in texts.items()}
    if run.folder.fetched(REWARDS).exists():
        before = run.folder.read_object(REWARDS)
        changed = [named for named in now if before.get(named) != now[named]]
        if changed:
            raise StageError(
                f"ppo.rewards: {', '.join(changed)} has changed since this PPO began: put it back, "
                "or begin again with `rldf train ppo RUN --redo`"
            )
    if now:
        run.folder.write_json(REWARDS, now)
        # At once: what this machine alone has is dropped when it begins again.
        run.folder.shared(REWARDS)
