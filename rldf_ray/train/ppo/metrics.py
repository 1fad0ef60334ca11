"""What PPO reports of a step: figures over all workers, and a sample of answers to read."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rldf_ray.storage.json_text import json_text
from rldf_ray.train.collectives import all_reduce, reduced
from rldf_ray.train.ppo import losses as ppo_math
from rldf_ray.train.ppo.rollout import Batch, Rollout

ANSWERS = "answers.jsonl"


@dataclass
class Laps:
    """Wall time of a step's parts, seconds by name."""

    seconds: dict[str, float] = field(default_factory=dict)
    _began: float = field(default_factory=time.monotonic)

    def end(self, name: str) -> None:
        """What went on since the last `end` was `name`."""
        now = time.monotonic()
        self.seconds[name] = now - self._began
        self._began = now


@dataclass(frozen=True, kw_only=True)
class Experience:
    """One micro-batch with everything its update needs, each [B, T-1], 0 where masked."""

    batch: Batch
    old_logprobs: Tensor
    ref_logprobs: Tensor
    old_values: Tensor
    advantages: Tensor
    returns: Tensor
    importance: Tensor


def rollout_figures(
    rollouts: Sequence[Rollout], scores: Tensor, kl: Tensor, made: Sequence[Experience]
) -> dict[str, float]:
    """What is known of a rollout before any update.

    Args:
        scores: the weighted sum of the plan's rewards, [B], neither normalised nor clipped.
        kl: k3 estimate of KL(policy || reference) of each answer, [B], nats.
    """
    device = kl.device
    mismatch = [
        ppo_math.masked_sum((e.old_logprobs - e.batch.engine_logprobs).abs(), e.batch.mask)
        for e in made
    ]
    worst = [
        (e.old_logprobs - e.batch.engine_logprobs).abs().masked_fill(~e.batch.mask, 0).max()
        for e in made
    ]
    sums: dict[str, Any] = {
        "answers": len(rollouts),
        "reward": scores.sum(),
        "reward_square": scores.double().square().sum(),
        "kl": kl.sum(),
        "ended": sum(r.ended for r in rollouts),
        "tokens": sum(len(r.answer_ids) for r in rollouts),
        "prompt_tokens": sum(len(r.prompt_ids) for r in rollouts),
        "mismatch": torch.stack(mismatch).sum(),
        "mismatch_max": torch.stack(worst).max(),
        "length_max": max(len(r.answer_ids) for r in rollouts),
    }
    total = reduced({k: torch.as_tensor(float(v), device=device).double() for k, v in sums.items()})
    answers, tokens = total["answers"], total["tokens"]
    reward = total["reward"] / answers
    variance = total["reward_square"] / answers - reward**2
    return {
        "reward": reward,
        "reward_std": 0.0 if variance < 0 else math.sqrt(variance),
        "kl": total["kl"] / answers,
        "share_ended": total["ended"] / answers,
        "response_tokens": tokens / answers,
        "response_tokens_max": total["length_max"],
        "generated_tokens": tokens,
        "prompt_tokens": total["prompt_tokens"],
        "engine_mismatch_mean": total["mismatch"] / tokens,
        "engine_mismatch_max": total["mismatch_max"],
    }


def explained_variance(made: Sequence[Experience]) -> dict[str, float]:
    """Of the critic's values before the update; absent where all returns are equal."""
    moments = torch.stack(
        [ppo_math.explained_moments(e.old_values, e.returns, e.batch.mask) for e in made]
    ).sum(0)
    share = float(ppo_math.explained_share(*all_reduce(moments)))
    return {"explained_variance": share} if math.isfinite(share) else {}


def actor_figures(policy: ppo_math.Stats) -> dict[str, float]:
    """Token means of the actor's optimizer step, from sums over its tokens on this worker."""
    sums = reduced(policy)
    count = sums["tokens"]
    return {
        "policy_loss": sums["loss"] / count,
        "ratio_mean": sums["ratio"] / count,
        "ratio_max": sums["ratio_max"],
        "clip_fraction": sums["clipped"] / count,
        "kl_old": sums["kl_k3"] / count,
        "entropy": sums["entropy"] / count,
    }


def critic_figures(value: ppo_math.Stats) -> dict[str, float]:
    """Token means of the critic's optimizer step, from sums over its tokens on this worker."""
    sums = reduced(value)
    count = sums["tokens"]
    return {"value_loss": sums["loss"] / count, "value_clip_fraction": sums["clipped"] / count}


def mean_of_updates(updates: Sequence[dict[str, float]]) -> dict[str, float]:
    """Mean of each figure over the updates of a step; the largest of a `_max`."""
    return {
        name: max(u[name] for u in updates)
        if name.endswith("_max")
        else sum(u[name] for u in updates) / len(updates)
        for name in updates[0]
    }


def append_answers(
    out: str | Path,
    step: int,
    prompts: Sequence[Sequence[dict[str, str]]],
    rollouts: Sequence[Rollout],
    scores: Tensor,
    kl: Tensor,
) -> None:
    """Add answers to `answers.jsonl`, for a person to see what the reward is given for.

    One JSON object a line: step, prompt (messages), answer, reward, kl (nats), ended.
    """
    with (Path(out) / ANSWERS).open("a", encoding="utf-8") as file:
        for prompt, rollout, score, distance in zip(prompts, rollouts, scores, kl, strict=True):
            line = {
                "step": step,
                "prompt": list(prompt),
                "answer": rollout.text,
                "reward": float(score),
                "kl": float(distance),
                "ended": rollout.ended,
            }
            file.write(json_text(line) + "\n")
