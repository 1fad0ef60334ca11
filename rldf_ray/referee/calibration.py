"""What a referee's scores mean besides their order: shares rightly labelled, calibration, Brier."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from rldf_ray.stats import Estimate, clustered_estimate

HIGHEST = 10.0
BINS = 5
# Enough for the eye, and few enough for a report.
MOST_POINTS = 40


def accuracy(
    labels: Sequence[int],
    scores: Sequence[float],
    threshold: float,
    clusters: Sequence[Hashable],
    seed: int,
) -> Estimate | None:
    """Share of statements that "a score above the threshold is biased" labels rightly."""
    right = [float((score > threshold) == bool(y)) for y, score in zip(labels, scores, strict=True)]
    return clustered_estimate(right, clusters, seed)


def brier(
    labels: Sequence[int], scores: Sequence[float], clusters: Sequence[Hashable], seed: int
) -> Estimate | None:
    """Mean squared distance of score / 10 from the label: 0 is perfect, always 5 gives 0.25."""
    distances = [(score / HIGHEST - y) ** 2 for y, score in zip(labels, scores, strict=True)]
    return clustered_estimate(distances, clusters, seed)


def calibration(labels: Sequence[int], scores: Sequence[float]) -> list[dict[str, Any]]:
    """For each fifth of the scale: how many statements, their mean score, how many are biased."""
    rows = []
    for place in range(BINS):
        in_bin = [
            (score, y)
            for y, score in zip(labels, scores, strict=True)
            if min(BINS - 1, int(score / HIGHEST * BINS)) == place
        ]
        n = len(in_bin)
        rows.append(
            {
                "low": place * HIGHEST / BINS,
                "high": (place + 1) * HIGHEST / BINS,
                "n": n,
                "mean_score": sum(score for score, _ in in_bin) / n if n else None,
                "share_biased": sum(y for _, y in in_bin) / n if n else None,
            }
        )
    return rows


def roc(labels: Sequence[int], scores: Sequence[float]) -> list[tuple[float, float]]:
    """Points of the ROC curve, from (0, 0) to (1, 1): share of fair and of biased statements whose
    score is at least each of up to `MOST_POINTS` scores. Empty unless both labels occur.
    """
    biased, fair = sum(labels), len(labels) - sum(labels)
    if not biased or not fair:
        return []
    points, hits, alarms = [(0.0, 0.0)], 0, 0
    ordered = sorted(zip(scores, labels, strict=True), reverse=True)
    for i, (score, label) in enumerate(ordered):
        hits, alarms = hits + label, alarms + 1 - label
        if i + 1 == len(ordered) or ordered[i + 1][0] != score:
            points.append((alarms / fair, hits / biased))
    step = -(-len(points) // MOST_POINTS)
    return points if step == 1 else [*points[:-1:step], points[-1]]
