"""Means, shares and AUC with 95 % bootstrap intervals (percentile), seeded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

RESAMPLES = 2000


@dataclass(frozen=True)
class Estimate:
    """A figure and its 95 % interval; the interval is None where it cannot be had."""

    value: float
    low: float | None
    high: float | None
    n: int


def mean_estimate(values: Sequence[float], seed: int) -> Estimate | None:
    """Mean of a sample; None of an empty one."""
    if not values:
        return None
    data = np.asarray(values, dtype=float)
    if len(data) < 2 or data.min() == data.max():
        return Estimate(float(data.mean()), None, None, len(data))
    bootstrapped = stats.bootstrap(
        (data,),
        np.mean,
        n_resamples=RESAMPLES,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return Estimate(
        float(data.mean()), float(bootstrapped.low), float(bootstrapped.high), len(data)
    )


def clustered_estimate(
    values: Sequence[float], clusters: Sequence[Hashable], seed: int
) -> Estimate | None:
    """Mean of a sample whose values stand and fall together within a cluster; None of an empty one.

    The interval resamples clusters: several answers to one prompt, or the items of a template,
    are no independent draws.
    """
    if not values:
        return None
    mean = float(np.mean(values))
    if len(set(clusters)) < 2 or min(values) == max(values):
        return Estimate(mean, None, None, len(values))
    low, high = interval(resampled_means(values, clusters, seed, RESAMPLES))
    return Estimate(mean, float(low), float(high), len(values))


def interval(resampled: NDArray[np.float64]) -> NDArray[np.float64]:
    """The ends of the middle 95 % of resampled figures, [resamples, ...] -> [2, ...]."""
    ends: NDArray[np.float64] = np.quantile(resampled, [0.025, 0.975], axis=0)
    return ends


def resampled_means(
    values: Sequence[float], clusters: Sequence[Hashable], seed: int, resamples: int
) -> NDArray[np.float64]:
    """Mean of every resample of whole clusters, [resamples].

    Rounded: sums of thirds that should be 0 are not quite, and on which side decides a p-value.
    """
    grouped: dict[Hashable, list[float]] = defaultdict(list)
    for value, cluster in zip(values, clusters, strict=True):
        grouped[cluster].append(value)
    counted = np.array([(sum(members), len(members)) for members in grouped.values()])
    number = len(counted)
    generator = np.random.default_rng(seed)
    drawn = generator.multinomial(number, [1 / number] * number, size=resamples)
    total = drawn @ counted
    means: NDArray[np.float64] = np.round(total[:, 0] / total[:, 1], 12)
    return means


def auc_estimate(labels: Sequence[int], scores: Sequence[float], seed: int) -> Estimate | None:
    """Area under the ROC curve: the chance that a biased statement scores above a fair one.

    Equal scores count half. None unless both labels occur.
    """
    y, x = np.asarray(labels, dtype=bool), np.asarray(scores, dtype=float)
    if len(set(labels)) < 2:
        return None
    generator = np.random.default_rng(seed)
    samples = (generator.integers(0, len(y), len(y)) for _ in range(RESAMPLES))
    resampled = [_auc(y[rows], x[rows]) for rows in samples if 0 < y[rows].sum() < len(y)]
    low, high = interval(np.asarray(resampled))
    return Estimate(_auc(y, x), float(low), float(high), len(y))


def auc_difference(
    labels: Sequence[int], scores: Sequence[float], others: Sequence[float], seed: int
) -> Estimate | None:
    """AUC of `scores` less that of `others` on the same statements, which the interval resamples.

    None unless both labels occur.
    """
    y = np.asarray(labels, dtype=bool)
    one, two = np.asarray(scores, dtype=float), np.asarray(others, dtype=float)
    if len(set(labels)) < 2:
        return None
    generator = np.random.default_rng(seed)
    samples = (generator.integers(0, len(y), len(y)) for _ in range(RESAMPLES))
    differences = [
        _auc(y[rows], one[rows]) - _auc(y[rows], two[rows])
        for rows in samples
        if 0 < y[rows].sum() < len(y)
    ]
    low, high = interval(np.asarray(differences))
    return Estimate(_auc(y, one) - _auc(y, two), float(low), float(high), len(y))


def auc(labels: Sequence[bool], scores: Sequence[float]) -> float | None:
    """Area under the ROC curve, without an interval. None unless both labels occur."""
    y = np.asarray(labels, dtype=bool)
    return _auc(y, np.asarray(scores, dtype=float)) if 0 < y.sum() < len(y) else None


def _auc(biased: NDArray[np.bool_], scores: NDArray[np.float64]) -> float:
    """Mann-Whitney U over the number of pairs."""
    pairs = biased.sum() * (~biased).sum()
    ranks = stats.rankdata(scores)
    return float((ranks[biased].sum() - biased.sum() * (biased.sum() + 1) / 2) / pairs)


def share_estimate(successes: int, n: int) -> Estimate | None:
    """A share with its Wilson interval; None of nothing."""
    if n == 0:
        return None
    wilson = stats.binomtest(successes, n).proportion_ci(method="wilson")
    return Estimate(successes / n, float(wilson.low), float(wilson.high), n)


def paired_difference(
    before: Sequence[float], after: Sequence[float], seed: int
) -> Estimate | None:
    """Mean of after - before over the same items; the interval resamples items."""
    return mean_estimate([b - a for a, b in zip(before, after, strict=True)], seed)
