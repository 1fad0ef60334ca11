"""The parts of a report on training, each from the result of its stage."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace
from typing import Any

from rldf_ray.stats import LEAST_CLUSTERS, Estimate, clustered_estimate, share_estimate
from rldf_ray.storage.results import (
    DPOResult,
    History,
    KTOResult,
    PPOResult,
    RewardResult,
    Right,
    SFTResult,
    if_recorded,
    recorded,
)

Part = dict[str, Any]


def sft_part(result: SFTResult) -> Part | None:
    """What the result of the SFT stage shows."""
    losses = _logged(recorded(result.history, "sft", "history"), "loss")
    if not losses:
        return None
    return {
        "examples": recorded(result.examples, "sft", "examples"),
        "too_long": if_recorded(result.too_long),
        "held_out": if_recorded(result.held_out),
        "passes": if_recorded(result.passes),
        "steps": len(losses),
        "loss_first": losses[0],
        "loss_last": losses[-1],
    }


def reward_part(result: RewardResult) -> Part | None:
    """What the result of the reward model's stage shows."""
    history = recorded(result.history, "reward", "history")
    losses = _logged(history, "loss")
    if not losses:
        return None
    held_out = recorded(result.held_out_pairs, "reward", "held_out_pairs")
    return {
        "pairs": recorded(result.pairs, "reward", "pairs"),
        "too_long": if_recorded(result.too_long),
        "steps": len(losses),
        "loss_first": losses[0],
        "loss_last": losses[-1],
        "loss_end": statistics.fmean(losses[-math.ceil(len(losses) / 4) :]),
        "held_out_pairs": held_out,
        **_accuracy(history, held_out, if_recorded(result.right_by_topic)),
        "held_out_taught": if_recorded(result.held_out_taught),
        "undebated": if_recorded(result.undebated),
    }


def preference_part(result: DPOResult | KTOResult) -> Part | None:
    """What the result of DPO or KTO shows; `accuracy` is that of its implicit reward."""
    stage = result.STAGE
    history = recorded(result.history, stage, "history")
    losses = _logged(history, "loss")
    if not losses:
        return None
    held_out = recorded(result.held_out_pairs, stage, "held_out_pairs")
    part: Part = {
        "pairs": recorded(result.pairs, stage, "pairs"),
        "too_long": recorded(result.too_long, stage, "too_long"),
        "steps": len(losses),
        "loss_first": losses[0],
        "loss_last": losses[-1],
        "held_out_pairs": held_out,
        **_accuracy(history, held_out, if_recorded(result.right_by_topic)),
        "margin": next(iter(reversed(_logged(history, "eval_margin"))), None),
    }
    if isinstance(result, KTOResult):
        names = ("desirable", "undesirable", "desirable_weight", "undesirable_weight")
        part |= {name: recorded(getattr(result, name), stage, name) for name in names}
    return part


def _accuracy(history: History, held_out: int, right: Right | None) -> Part:
    """The share of held-out pairs that are told apart at the end, with its interval.

    Args:
        right: None of a run of an earlier version, which logged the share alone, a reward model's
            as the mean of those of batches; its interval takes pairs as independent.
    """
    logged = _logged(history, "eval_accuracy")
    if right is not None:
        estimate = _over_topics(right)
    else:
        estimate = share_estimate(round(logged[-1] * held_out), held_out) if logged else None
    return {
        "held_out_topics": None if right is None else len(right),
        "accuracy": estimate.value if estimate else None,
        "accuracy_low": estimate.low if estimate else None,
        "accuracy_high": estimate.high if estimate else None,
    }


def _over_topics(right: Right) -> Estimate | None:
    """A share of pairs whose interval draws topics; too few of them show nothing and have none.

    Where all pairs are right, or none is, the interval is Wilson's of as many topics.
    """
    pairs = [(float(i < count), name) for name, (count, n) in right.items() for i in range(n)]
    estimate = clustered_estimate([one for one, _ in pairs], [name for _, name in pairs], 0)
    if estimate is None or len(right) < LEAST_CLUSTERS:
        return estimate and replace(estimate, low=None, high=None)
    if estimate.low is None and estimate.value in (0.0, 1.0):
        topics = share_estimate(len(right) if estimate.value else 0, len(right))
        return topics and replace(topics, n=estimate.n)
    return estimate


def ppo_part(result: PPOResult) -> Part:
    """What the result of PPO shows."""
    history = recorded(result.history, "ppo", "history")
    first, last = history[0], history[-1]
    return {
        "episodes": recorded(result.episodes, "ppo", "episodes"),
        "steps": len(history),
        "reward_first": first["reward"],
        "reward_last": last["reward"],
        "kl_last": last["kl"],
        "step0_ratio": first["first_ratio_max"],
        "step0_kl": first["kl"],
        "engine_mismatch_max": max(_logged(history, "engine_mismatch_max"), default=None),
        "share_ended_last": last["share_ended"],
    }


def _logged(history: History, metric: str) -> list[float]:
    return [entry[metric] for entry in history if entry.get(metric) is not None]
