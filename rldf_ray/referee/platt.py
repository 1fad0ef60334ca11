"""From a reward to a probability: P(biased | r) = 1 / (1 + exp(slope * r - intercept)).

Platt, "Probabilistic outputs for support vector machines", 1999. A reward is higher for the fairer
statement, so a slope above 0 keeps the order that the reward model learned.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

from rldf_ray.errors import UserError

HIGHEST = 10.0


class PlattError(UserError):
    """No probability can be read off the rewards; the message says why."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """How rewards become scores.

    Attributes:
        slope: above 0.
        intercept: log-odds of "biased" at reward 0.
        statements: how many labelled statements it was fitted to.
    """

    slope: float
    intercept: float
    statements: int

    def score(self, reward: float) -> float:
        """10 * P(biased | reward): 0 (none) to 10 (extreme), falling as the reward rises."""
        return HIGHEST * float(special.expit(self.intercept - self.slope * reward))


def platt(rewards: Sequence[float], labels: Sequence[int]) -> Calibration:
    """Maximum likelihood, with Platt's targets in place of 0 and 1, so that no score is certain.

    Args:
        labels: 1 biased, 0 fair.

    Raises:
        PlattError: a label is missing, or higher rewards do not go with fair statements.
    """
    biased, fair = sum(labels), len(labels) - sum(labels)
    if not biased or not fair:
        raise PlattError(f"{biased} biased and {fair} fair statements: both are needed")
    high, low = (biased + 1) / (biased + 2), 1 / (fair + 2)
    targets = np.asarray([high if label else low for label in labels])
    # In units of their own spread rewards suit the optimizer, however large they are.
    r = np.asarray(rewards, dtype=float)
    spread = float(r.std())
    if not math.isfinite(spread) or spread == 0.0:
        raise PlattError("all rewards are the same, or one is no number")
    centre = float(r.mean())
    x = (r - centre) / spread

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        logits = weights[0] - weights[1] * x
        value = -(targets * special.log_expit(logits) + (1 - targets) * special.log_expit(-logits))
        error = special.expit(logits) - targets
        return float(value.sum()), np.asarray([error.sum(), -(error * x).sum()])

    fitted = optimize.minimize(loss, np.zeros(2), jac=True, method="BFGS").x
    if fitted[1] <= 0:
        raise PlattError("biased statements have higher rewards than fair ones")
    slope = float(fitted[1]) / spread
    return Calibration(slope, float(fitted[0]) + slope * centre, len(labels))
