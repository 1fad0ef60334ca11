"""Is one method better than another? Paired bootstrap on the same items, Holm over all pairs.

An item's figure is the share of repeats that got it right, a prompt's the mean score of its free
answers. Items of a question template say the same with other names, so templates are resampled.
They are drawn from all categories at once: a small sample has two or three templates of a category,
and drawn within it a difference in all of them would never vary and pass for certain.

All of that is of the models that were trained. Whether others would differ likewise is another
question, which the repeats answer (`seeds.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from rldf_ray.comparison.results import MULTIROLE
from rldf_ray.comparison.seeds import over_seeds
from rldf_ray.comparison.tables import BETTER
from rldf_ray.stats import interval, resampled_means

RESAMPLES = 10_000
LEVEL = 0.05
# k templates have 2^k ways to point, in 2 of which they all agree: with fewer no p is below LEVEL.
LEAST_TEMPLATES = 6
# What methods are held against.
BASELINES = (
    "default",
    "instructed",
    "sft",
    "gold_sft",
    "rlaif",
    "rlaif_instructed",
    "rldf_unheard",
    "rldf_unmarked",
)

# Conditions that all rows are of.
WHOLE = ("all", MULTIROLE)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """`method` minus `against`, in accuracy or a hundredth of a score.

    Attributes:
        condition: of the items; of free answers the measure (BS, CE, LS).
        mode: how the items were answered; "" of free answers.
        low, high: 95 % interval (percentile) of these trained models.
        p: two-sided, of the same resamples; at least what so few templates can show.
        n, templates: items, and the question templates they are of; of free answers the prompts,
            and their topics.
        p_holm: adjusted over the comparisons of one family; None before that.
        repeats: of both methods.
        seed_low, seed_high: 95 % interval (Student's t) over the repeats; None of a single one.
    """

    method: str
    against: str
    condition: str
    value: float
    low: float
    high: float
    p: float
    n: int
    templates: int
    p_holm: float | None = None
    mode: str = ""
    repeats: int = 1
    seed_low: float | None = None
    seed_high: float | None = None

    @property
    def verdict(self) -> str:
        """ "not separable" where the interval includes 0; else it says what does not bear it out.

        That is Holm's p, or the interval over seeds. "too few templates" where no difference could
        have been shown.
        """
        if self.templates < LEAST_TEMPLATES:
            return "too few templates"
        if not self._separable:
            return "not separable"
        if self._over_seeds:
            return self._way if self._after_holm else f"{self._way}, but not after Holm"
        said = f"{self._way} for these models, not shown over seeds"
        return said if self._after_holm else f"{said}, and not after Holm"

    @property
    def short_verdict(self) -> str:
        """The same for a narrow table: `n.s.`, and in parentheses what is not borne out."""
        if not self._separable:
            return "n.s."
        return self._way if self._after_holm and self._over_seeds else f"({self._way})"

    @property
    def _separable(self) -> bool:
        return self.templates >= LEAST_TEMPLATES and not self.low <= 0 <= self.high

    @property
    def _way(self) -> str:
        return "better" if self.value * BETTER.get(self.condition, 1) > 0 else "worse"

    @property
    def _after_holm(self) -> bool:
        return self.p_holm is None or self.p_holm < LEVEL

    @property
    def _over_seeds(self) -> bool:
        """Whether the interval over seeds excludes 0, or there is a single repeat and so none."""
        if self.seed_low is None or self.seed_high is None:
            return True
        return not self.seed_low <= 0 <= self.seed_high


def compare_all(
    rows: Sequence[Mapping[str, Any]],
    methods: Sequence[str],
    seed: int,
    conditions: Sequence[str] = ("all", "ambig", "disambig"),
    *,
    figure: str = "correct",
    incomplete: bool = False,
    mode: str = "",
) -> list[Comparison]:
    """Every method against the baselines, on the items of each condition.

    A baseline is held against those before it.

    Args:
        rows: of one set in eval/items.parquet, or a judge's scores.
        conditions: of the items, or words for all of them (WHOLE).
        figure: the column that is compared.
        incomplete: an item that only one of two methods has is left out; else it is an error.
        mode: how the items were answered.

    Holm's family is the comparisons of one condition.
    """
    pairs = [
        (method, against)
        for number, against in enumerate(BASELINES)
        if against in methods
        for method in methods
        if method not in BASELINES[: number + 1]
    ]
    comparisons: list[Comparison] = []
    for condition in conditions:
        computed = (
            compare(rows, *pair, condition, seed, figure=figure, incomplete=incomplete)
            for pair in pairs
        )
        family = [comparison for comparison in computed if comparison is not None]
        adjusted = holm([c.p for c in family])
        comparisons += [
            replace(c, p_holm=p, mode=mode) for c, p in zip(family, adjusted, strict=True)
        ]
    return comparisons


def compare(
    rows: Sequence[Mapping[str, Any]],
    method: str,
    against: str,
    condition: str,
    seed: int,
    *,
    figure: str = "correct",
    incomplete: bool = False,
) -> Comparison | None:
    """One difference with its interval; None where there is no such item.

    Raises:
        ValueError: other items than `against` has, and not `incomplete`.
    """
    kept = [row for row in rows if condition in WHOLE or row["condition"] == condition]
    mine, theirs = (_figures(kept, name, figure) for name in (method, against))
    if mine.keys() != theirs.keys() and not incomplete:
        raise ValueError(f"{method} and {against} did not answer the same items")
    cluster_of = {row["item_id"]: (row["group"], row["template"]) for row in kept}
    # In the rows' order: a set's is another in every process, and with it the sum's last digit.
    differences = {item: mine[item] - theirs[item] for item in mine if item in theirs}
    if not differences:
        return None
    items = sorted(differences, key=lambda item: cluster_of[item])
    drawn = resampled_means(
        [differences[i] for i in items], [cluster_of[i] for i in items], seed, RESAMPLES
    )
    low, high = interval(drawn)
    templates = len({cluster_of[item] for item in items})
    tail = min((drawn <= 0).sum(), (drawn >= 0).sum())
    seeds = over_seeds(kept, method, against, figure)
    return Comparison(
        method=method,
        against=against,
        condition=condition,
        value=fmean(differences.values()),
        low=float(low),
        high=float(high),
        p=min(1.0, max(float(2 * (tail + 1) / (len(drawn) + 1)), 2.0 ** (1 - templates))),
        n=len(differences),
        templates=templates,
        repeats=seeds.repeats,
        seed_low=seeds.low,
        seed_high=seeds.high,
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values (Holm 1979), in the order given; step down, never decreasing, at most 1."""
    m, worst = len(p_values), 0.0
    adjusted = [0.0] * m
    for rank, i in enumerate(sorted(range(m), key=lambda i: p_values[i])):
        worst = max(worst, min(1.0, (m - rank) * p_values[i]))
        adjusted[i] = worst
    return adjusted


def _figures(rows: Sequence[Mapping[str, Any]], method: str, figure: str) -> dict[str, float]:
    """Item -> mean over the repeats: of `correct`, the share that got it right."""
    values_of: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row["method"] == method:
            values_of[row["item_id"]].append(row[figure])
    return {item: sum(values) / len(values) for item, values in values_of.items()}
