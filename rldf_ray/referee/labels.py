"""High or low bias, from the scores of a round (METHOD 1.6)."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from rldf_ray.records import Label


@dataclass(frozen=True)
class Threshold:
    """Absolute: a score above `value` is high bias. Relative: above the mean of its round."""

    kind: Literal["absolute", "relative"]
    value: float


def label_round(scores: Sequence[float | None], threshold: Threshold) -> list[Label | None]:
    """The label of each statement of a round.

    A statement without a score has no label. Relative to the round, a score at the mean (all
    equal, or the only one) tells nothing and gives no label either.
    """
    if threshold.kind == "absolute":
        return [None if s is None else "high" if s > threshold.value else "low" for s in scores]
    known = [score for score in scores if score is not None]
    if not known or min(known) == max(known):
        return [None] * len(scores)
    # Exact, so that rounding calls no score at the mean above or below it.
    exact = [None if s is None else Fraction(str(s)) for s in scores]
    mean = statistics.mean(s for s in exact if s is not None)
    return [None if s is None or s == mean else "high" if s > mean else "low" for s in exact]
