"""95 % bootstrap intervals of BBQ's figures, resampling question templates.

The items of a template say the same with other names, so they are no independent draws: an
interval that resamples items is too narrow for what one asks, which is how other questions would
have turned out. Templates are drawn within their category, so every category keeps its place in
the overall figures.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rldf_ray.evaluate.bbq.variants import Array, Variant, counts_row, figures
from rldf_ray.sets.bbq.items import BBQItem, Key
from rldf_ray.sets.bbq.score import Prediction, score
from rldf_ray.stats import LEAST_CLUSTERS, RESAMPLES, interval

LEAST_DEFINED = 0.9
"""Share of resamples that must have a figure for its interval to be given."""

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Intervals:
    """Figure -> its interval, where it has one.

    Attributes:
        categories: by category; empty where it has fewer than `LEAST_CLUSTERS` templates.
        overall: over all items; empty where they are of fewer templates in all.
        mean_of_categories: of the columns' mean; as `overall`.
        templates: how many were resampled.
    """

    categories: Mapping[str, Mapping[str, Interval]]
    overall: Mapping[str, Interval]
    mean_of_categories: Mapping[str, Interval]
    templates: int


def intervals(
    items: Sequence[BBQItem],
    predictions: Mapping[Key, Prediction],
    variant: Variant,
    seed: int,
) -> Intervals:
    """Intervals of every figure of `variant`, from one prediction an item."""
    generator = np.random.default_rng(seed)
    templates = _templates(items)
    resampled: dict[str, Array] = {}  # category -> counts [RESAMPLES, 2, C]
    for category, groups in sorted(templates.items()):
        counts = np.stack([counts_row(score(g, predictions).overall) for g in groups])
        number = len(counts)
        drawn = generator.multinomial(number, [1 / number] * number, size=RESAMPLES)
        resampled[category] = np.tensordot(drawn.astype(float), counts, axes=1)
    by_category = {category: figures(counts, variant) for category, counts in resampled.items()}
    overall = figures(sum(resampled.values(), np.zeros(())), variant)
    means = {name: _column_mean([f[name] for f in by_category.values()]) for name in overall}
    in_all = sum(map(len, templates.values()))
    return Intervals(
        categories={
            category: _quantiles(samples, len(templates[category]))
            for category, samples in by_category.items()
        },
        overall=_quantiles(overall, in_all),
        mean_of_categories=_quantiles(means, in_all),
        templates=in_all,
    )


def _templates(items: Sequence[BBQItem]) -> dict[str, list[list[BBQItem]]]:
    """Category -> the items of each of its templates."""
    groups: dict[str, dict[str, list[BBQItem]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        groups[item.category][item.question_index].append(item)
    return {category: list(by_template.values()) for category, by_template in groups.items()}


def _column_mean(columns: Sequence[Array]) -> Array:
    """Mean over the categories that have the figure, resample by resample."""
    stacked = np.stack(columns)
    known = ~np.isnan(stacked)
    total = np.where(known, stacked, 0).sum(0)
    missing = np.full(total.shape, np.nan)
    means: Array = np.divide(total, known.sum(0), out=missing, where=known.any(0))
    return means


def _quantiles(samples: Mapping[str, Array], templates: int) -> dict[str, Interval]:
    """The middle 95 %; nothing for a figure that did not vary or was seldom defined.

    Nor for any of so few templates that all of them point one way by chance.
    """
    bounds: dict[str, Interval] = {}
    if templates < LEAST_CLUSTERS:
        return bounds
    for name, values in samples.items():
        known = values[~np.isnan(values)]
        if len(known) < LEAST_DEFINED * len(values) or known.min() == known.max():
            continue
        low, high = interval(known)
        bounds[name] = (float(low), float(high))
    return bounds
