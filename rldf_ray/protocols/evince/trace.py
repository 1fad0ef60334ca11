"""What was recorded of a dialogue: all that steering, stopping and deciding read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rldf_ray.protocols.evince.metrics import Metrics
from rldf_ray.protocols.evince.scale import Distribution

Side = Literal["A", "B"]
OTHER: dict[Side, Side] = {"A": "B", "B": "A"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round: both have spoken, and what was measured of it.

    Attributes:
        level: the contentiousness that both spoke at, 0 to 1.
        a, b: the distributions of each side, one for each thing that is rated.
        crit_a, crit_b: quality of each side's reasons, 0 to 1; None where it was not measured.
        repeated_a, repeated_b: how much of a side's arguments its last turn had already, 0 to 1;
            None in the first round, or where it was not measured.
    """

    level: float
    a: tuple[Distribution, ...]
    b: tuple[Distribution, ...]
    metrics: Metrics
    crit_a: float | None = None
    crit_b: float | None = None
    repeated_a: float | None = None
    repeated_b: float | None = None


Trace = Sequence[Round]
"""A dialogue so far, round 1 first."""
