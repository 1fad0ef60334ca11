"""Means, shares, differences and AUC with 95 % intervals; bootstrap ones are seeded percentiles."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

RESAMPLES = 2000
# How often each cluster is drawn: so many numbers are in memory at a time, 32 MiB of them.
CELLS = 2**22
# Of a 95 % interval.
Z = 1.96
# k clusters have 2^k ways to point, in 2 of which they all agree: with fewer no p is below .05.
LEAST_CLUSTERS = 6


@dataclass(frozen=True)
class Estimate:
    """A figure and its 95 % interval; the interval is None where it cannot be had."""

    value: float
    low: float | None
    high: float | None
    n: int


def clustered_estimate(
    values: Sequence[float], clusters: Sequence[Hashable], seed: int
) -> Estimate | None:
    """Mean of a sample whose values stand and fall together within a cluster; None of an empty one.

    The interval resamples clusters: several answers to one prompt, or the items of a template,
    are no independent draws. It is None of fewer than `LEAST_CLUSTERS`, and where clusters do not
    differ, as of a judge that names the first answer in both positions of every pair: what they
    would do in another sample is not known from that.
    """
    if not values:
        return None
    mean = float(np.mean(values))
    if len(set(clusters)) < LEAST_CLUSTERS:
        return Estimate(mean, None, None, len(values))
    low, high = interval(resampled_means(values, clusters, seed, RESAMPLES))
    if low == high:
        return Estimate(mean, None, None, len(values))
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
    # One generator draws the same rows, however many at a time.
    parts = [
        generator.multinomial(number, [1 / number] * number, size=some) @ counted
        for some in _shares(resamples, math.ceil(number * resamples / CELLS))
    ]
    total = np.concatenate(parts)
    means: NDArray[np.float64] = np.round(total[:, 0] / total[:, 1], 12)
    return means


def _shares(number: int, parts: int) -> list[int]:
    """A whole number in so many parts, or as many as it has ones, none of them small."""
    parts = max(1, min(number, parts))
    return [number // parts + (place < number % parts) for place in range(parts)]


def auc_estimate(
    labels: Sequence[int], scores: Sequence[float], clusters: Sequence[Hashable]
) -> Estimate | None:
    """Area under the ROC curve: the chance that a biased statement scores above a fair one.

    Equal scores count half. Rows of one cluster, as the statements on one topic, are one draw: the
    interval is of the clustered form of DeLong's variance (Obuchowski 1997), on the scale of
    log-odds and with Student's t, by which few clusters and areas near 1 have intervals wide
    enough. Where one kind is above the other without exception that variance is 0, and the interval
    is Wilson's of as many successes as clusters. It is None where there are too few clusters to
    show anything (`_could_show`); the result is None unless both labels occur.
    """
    y, names = np.asarray(labels, dtype=bool), _numbered(clusters)
    if not 0 < y.sum() < len(y):
        return None
    area, deviations = _placed(y, np.asarray(scores, dtype=float))
    if not _could_show(y, names):
        return Estimate(area, None, None, len(y))
    return Estimate(area, *_ends(area, _by_cluster(deviations, names)), len(y))


def _ends(area: float, shares: NDArray[np.float64]) -> tuple[float, float]:
    """The interval of an area, from what each cluster adds to the deviation, [clusters]."""
    if area in (0.0, 1.0):
        wilson = len(shares) / (len(shares) + Z**2)
        return (wilson, 1.0) if area else (0.0, 1 - wilson)
    margin = _margin(shares) / (area * (1 - area))
    low, high = special.expit(special.logit(area) + np.array([-margin, margin]))
    return float(low), float(high)


def auc_difference(
    labels: Sequence[int],
    scores: Sequence[float],
    others: Sequence[float],
    clusters: Sequence[Hashable],
) -> Estimate | None:
    """AUC of `scores` less that of `others` on the same statements.

    The interval is of the same variance as that of `auc_estimate`, and None where that one is; the
    result is None unless both labels occur. Where an area is 0 or 1, whose variance is 0, it is
    of how far both areas' intervals reach, as of independent ones (Zou and Donner 2008): scores of
    the same statements rise and fall together, so that it is rather too wide.
    """
    y, names = np.asarray(labels, dtype=bool), _numbered(clusters)
    if not 0 < y.sum() < len(y):
        return None
    one, of_one = _placed(y, np.asarray(scores, dtype=float))
    two, of_two = _placed(y, np.asarray(others, dtype=float))
    if not _could_show(y, names):
        return Estimate(one - two, None, None, len(y))
    if {one, two} & {0.0, 1.0}:
        (low, high), (other_low, other_high) = (
            _ends(area, _by_cluster(parts, names)) for area, parts in ((one, of_one), (two, of_two))
        )
        below = math.hypot(one - low, other_high - two)
        above = math.hypot(high - one, two - other_low)
        return Estimate(one - two, one - two - below, one - two + above, len(y))
    margin = _margin(_by_cluster(of_one - of_two, names))
    low, high = max(-1.0, one - two - margin), min(1.0, one - two + margin)
    return Estimate(one - two, low, high, len(y))


def _numbered(clusters: Sequence[Hashable]) -> NDArray[np.int64]:
    """The place of each row's cluster among the different ones, [rows]."""
    places: dict[Hashable, int] = {}
    return np.array([places.setdefault(name, len(places)) for name in clusters], dtype=np.int64)


def _auc(biased: NDArray[np.bool_], ranks: NDArray[np.float64]) -> float:
    """Mann-Whitney U over the number of pairs."""
    pairs = biased.sum() * (~biased).sum()
    return float((ranks[biased].sum() - biased.sum() * (biased.sum() + 1) / 2) / pairs)


def _placed(
    biased: NDArray[np.bool_], scores: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]]:
    """The area under the ROC curve, and each row's part of how far a draw is off it, [rows].

    A row's placement is the share of the rows of the other kind that it is on the right side of;
    in either kind their mean is the area.
    """
    ranks = stats.rankdata(scores)
    area, placements = _auc(biased, ranks), np.empty(len(scores))
    number, others = int(biased.sum()), int((~biased).sum())
    placements[biased] = (ranks[biased] - stats.rankdata(scores[biased])) / others
    placements[~biased] = 1 - (ranks[~biased] - stats.rankdata(scores[~biased])) / number
    return area, (placements - area) / np.where(biased, number, others)


def _by_cluster(parts: NDArray[np.float64], clusters: NDArray[np.int64]) -> NDArray[np.float64]:
    """Sum of the rows' parts in each cluster, [clusters]."""
    sums = np.zeros(clusters.max() + 1)
    np.add.at(sums, clusters, parts)
    return sums


def _margin(shares: NDArray[np.float64]) -> float:
    """Half of a 95 % interval, from what each cluster adds to the deviation, [clusters]."""
    number = len(shares)
    variance = number / (number - 1) * float((shares**2).sum())
    return float(stats.t.ppf(0.975, number - 1)) * math.sqrt(variance)


def _could_show(biased: NDArray[np.bool_], clusters: NDArray[np.int64]) -> bool:
    """Whether complete separation would be unlikely by chance, at .025 on one side.

    Under a permutation of the labels a cluster that has both of them points either way, as a whole,
    and those of one label are drawn from all such.
    """
    sizes, positive = np.bincount(clusters), np.bincount(clusters, biased)
    both = int(((positive > 0) & (positive < sizes)).sum())
    high, low = int((positive == sizes).sum()), int((positive == 0).sum())
    return bool(0.5**both / special.comb(high + low, high) < 0.025)


def auc(labels: Sequence[bool], scores: Sequence[float]) -> float | None:
    """Area under the ROC curve, without an interval. None unless both labels occur."""
    y = np.asarray(labels, dtype=bool)
    return _auc(y, stats.rankdata(scores)) if 0 < y.sum() < len(y) else None


def share_estimate(successes: int, n: int) -> Estimate | None:
    """A share with its Wilson interval; None of nothing."""
    if n == 0:
        return None
    wilson = stats.binomtest(successes, n).proportion_ci(method="wilson")
    return Estimate(successes / n, float(wilson.low), float(wilson.high), n)
