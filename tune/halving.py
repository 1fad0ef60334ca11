"""Which trials of a sweep go on once they have their first figures: the better half of each axis.

Halving is synchronous: values are compared when all of them have been measured, so that the order
in which trials run decides nothing. Repeats have seeds, and so may have items, of their own; each
has every value, so means over the same repeats compare like with like.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from rldf_ray.apps.tune.grids import Sweep, by_value


@dataclass(frozen=True, slots=True)
class Halved:
    """Keys of the trials that go on and of those that end; any others wait to be compared."""

    kept: frozenset[str]
    stopped: frozenset[str]


def halve(sweep: Sweep, figures: Mapping[str, float]) -> Halved:
    """The upper half of every axis's values goes on, each with all of its repeats.

    Of an odd number it is the larger half, and what equals the least of it goes on too. A trial
    that is a point of several axes goes on where one of them keeps it.

    Args:
        figures: by trial, higher is better. An axis is halved once all of its trials have one.
    """
    kept: set[str] = set()
    ended: set[str] = set()
    waiting: set[str] = set()
    for axis in sweep.axes:
        values = [trials for _, trials in by_value(sweep, axis)]
        if any(key not in figures for trials in values for key in trials):
            waiting.update(key for trials in values for key in trials)
            continue
        means = [fmean(figures[key] for key in trials) for trials in values]
        least = sorted(means, reverse=True)[(len(means) - 1) // 2]
        for trials, mean in zip(values, means, strict=True):
            (kept if mean >= least else ended).update(trials)
    return Halved(frozenset(kept), frozenset(ended - kept - waiting))
