"""How far labels agree with a person's: weighted kappa and steps apart, resampling texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rldf_ray.protocols.evince.metrics import nmi
from rldf_ray.protocols.evince.scale import LabelScale
from rldf_ray.stats import LEAST_CLUSTERS, Estimate, clustered_estimate, interval

RESAMPLES = 1000
CORPUS = 50
"""Fewest items of which the mutual information of labels is reported."""
Table = NDArray[np.float64]
"""Counts of two raters' labels, [labels, labels]."""


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """One rater's labels against another's, on the same items.

    Attributes:
        kappa: Cohen's, with squared steps as weights; None where both only ever use one label.
        apart: mean absolute difference, in steps.
        signed: mean difference in steps, the first rater's less the other's; None of labels
            without an order.
        same: share of equal labels.
    """

    n: int
    kappa: Estimate | None
    apart: Estimate
    signed: Estimate | None
    same: Estimate


def agreement(
    pairs: Sequence[tuple[str, str]], texts: Sequence[str], scale: LabelScale, seed: int
) -> Agreement | None:
    """How two raters agree; None without an item that both labelled.

    Args:
        pairs: each item's two labels.
        texts: which text each item is of; the interval resamples texts.
    """
    if not pairs:
        return None
    steps = [scale.distance(one, other) for one, other in pairs]
    place = dict(zip(scale.names, scale.positions, strict=True))
    signed = [place[one] - place[other] for one, other in pairs]
    same = [float(one == other) for one, other in pairs]
    apart = clustered_estimate(steps, texts, seed)
    moved = clustered_estimate(signed, texts, seed)
    equal = clustered_estimate(same, texts, seed)
    assert apart is not None
    assert moved is not None
    assert equal is not None
    return Agreement(
        n=len(pairs),
        kappa=table_estimate(pairs, texts, scale, lambda table: weighted_kappa(table, scale), seed),
        apart=apart,
        signed=None if scale.nominal else moved,
        same=equal,
    )


def weighted_kappa(table: Table, scale: LabelScale) -> float:
    """Cohen's kappa with the squared distance of labels as weights; nan where it is not defined."""
    names = scale.names
    weights = np.array([[scale.distance(a, b) ** 2 for b in names] for a in names])
    shares = table / table.sum()
    expected = np.outer(shares.sum(axis=1), shares.sum(axis=0))
    by_chance = float((weights * expected).sum())
    return 1 - float((weights * shares).sum()) / by_chance if by_chance > 0 else float("nan")


def label_information(
    pairs: Sequence[tuple[str, str]], texts: Sequence[str], scale: LabelScale, seed: int
) -> Estimate | None:
    """Normalised mutual information of two raters' labels; None of fewer than `CORPUS` items.

    The paper defines no joint distribution; this one, over a corpus, is a choice.
    """
    if len(pairs) < CORPUS:
        return None
    return table_estimate(pairs, texts, scale, lambda table: nmi(table / table.sum()), seed)


def table_estimate(
    pairs: Sequence[tuple[str, str]],
    texts: Sequence[str],
    scale: LabelScale,
    statistic: Callable[[Table], float],
    seed: int,
) -> Estimate | None:
    """A statistic of two raters' labels, with an interval that resamples texts.

    None where it is not defined; no interval of fewer texts than `LEAST_CLUSTERS`, nor where it is
    not defined in a tenth of the resamples.
    """
    place = {name: i for i, name in enumerate(scale.names)}
    tables: dict[str, Table] = {}
    for (one, other), text in zip(pairs, texts, strict=True):
        counts = tables.setdefault(text, np.zeros((len(place), len(place))))
        counts[place[one], place[other]] += 1
    stacked = np.stack(list(tables.values()))
    value = statistic(stacked.sum(axis=0))
    if np.isnan(value):
        return None
    generator = np.random.default_rng(seed)
    number = len(stacked)
    drawn = generator.multinomial(number, [1 / number] * number, size=RESAMPLES)
    resampled = np.array([statistic(table) for table in np.tensordot(drawn, stacked, axes=1)])
    defined = resampled[~np.isnan(resampled)]
    if number < LEAST_CLUSTERS or len(defined) < 0.9 * RESAMPLES:
        return Estimate(value, None, None, len(pairs))
    low, high = interval(defined)
    return Estimate(value, float(low), float(high), len(pairs))
