"""Whether a training still has weights that are numbers; without torch, as the driver asks too."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rldf_ray.errors import UserError

DIVERGED = ("loss", "train_loss", "policy_loss", "value_loss", "reward", "held_out_reward", "kl")
"""Figures that are finite numbers for as long as the weights are."""


class DivergedError(UserError):
    """A loss or a reward is NaN or infinite, and the weights with it."""


def check_finite(stage: str, entry: Mapping[str, Any]) -> None:
    """Nothing where every loss and reward of a step is a number.

    Args:
        entry: the step's figures and its number, "step"; a progress file has null for one that is
            no finite number.

    Raises:
        DivergedError: one is NaN or infinite.
    """
    for figure in DIVERGED:
        value = entry.get(figure, 0.0)
        if value is None or not math.isfinite(value):
            raise DivergedError(
                f"{stage}: {figure} is not a finite number at step {entry['step']}: training "
                f"diverged, and its model is of no use; give a lower learning rate in the plan "
                "and another --out"
            )
