"""The difference between two methods over seeds: what it would be with other trained models.

Resampled items say how certain a difference is of the models that were trained; the repeats say how
it varies from one training to another. A row that answers alike in all repeats adds nothing to it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from scipy.stats import t

LEVEL = 0.95


@dataclass(frozen=True)
class OverSeeds:
    """Student's t-interval of a difference, of as many differences as there are repeats.

    Attributes:
        repeats: that both methods have.
        low, high: 95 %; None where there is one repeat, and equal where no repeat differs.
    """

    repeats: int
    low: float | None = None
    high: float | None = None


def over_seeds(
    rows: Sequence[Mapping[str, Any]], method: str, against: str, figure: str
) -> OverSeeds:
    """The difference of every repeat, on the items that both methods have in it, and their spread.

    Repeats are paired: repeat r of both has the same seed, and with it the same order of options.

    Args:
        rows: with method, repeat, item_id and `figure`.
    """
    values: dict[str, dict[int, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        if row["method"] in (method, against):
            values[row["method"]][row["repeat"]][row["item_id"]] = float(row[figure])
    mine, theirs = values[method], values[against]
    differences = []
    for repeat in sorted(mine.keys() & theirs.keys()):
        both = [item for item in mine[repeat] if item in theirs[repeat]]
        if both:
            changes = (mine[repeat][item] - theirs[repeat][item] for item in both)
            # Rounded, as sums of equal differences in another order may differ in the last digit.
            differences.append(round(fmean(changes), 12))
    number = len(differences)
    if number < 2:
        return OverSeeds(number)
    half = float(t.ppf((1 + LEVEL) / 2, number - 1)) * stdev(differences) / number**0.5
    mean = fmean(differences)
    return OverSeeds(number, mean - half, mean + half)
