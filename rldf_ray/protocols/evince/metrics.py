"""How two distributions over a label scale differ, and how far two raters agree.

The paper's Table 4. Logarithms are to base 2, as in its Table 9. Distributions are in the scale's
order (`LabelScale.aligned`).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rldf_ray.protocols.evince.scale import LabelScale

SMOOTHING = 1e-3
"""Share of the uniform distribution that is mixed in where KL or cross entropy is infinite."""


def entropy(p: Sequence[float]) -> float:
    """H(p) in bits, from 0 to log2 n."""
    return -sum(x * math.log2(x) for x in p if x > 0) + 0.0


def needs_smoothing(a: Sequence[float], b: Sequence[float]) -> bool:
    """Whether `a` holds possible what `b` holds impossible, so that KL(a, b) is infinite."""
    return any(x > 0 and y <= 0 for x, y in zip(a, b, strict=True))


def smoothed(p: Sequence[float]) -> tuple[float, ...]:
    """`p` with a little of the uniform distribution (a choice)."""
    return tuple((1 - SMOOTHING) * x + SMOOTHING / len(p) for x in p)


def kl(a: Sequence[float], b: Sequence[float]) -> float:
    """KL(a || b) in bits; both are smoothed where it would be infinite."""
    if needs_smoothing(a, b):
        a, b = smoothed(a), smoothed(b)
    return max(0.0, sum(x * math.log2(x / y) for x, y in zip(a, b, strict=True) if x > 0))


def cross_entropy(a: Sequence[float], b: Sequence[float]) -> float:
    """H(a, b) in bits, at least H(a); both are smoothed where it would be infinite."""
    if needs_smoothing(a, b):
        a, b = smoothed(a), smoothed(b)
    return -sum(x * math.log2(y) for x, y in zip(a, b, strict=True) if x > 0) + 0.0


def normalised_cross_entropy(a: Sequence[float], b: Sequence[float]) -> float:
    """Cross entropy over log2 n; 0 where there is one label (a choice)."""
    return cross_entropy(a, b) / math.log2(len(a)) if len(a) > 1 else 0.0


def jsd(a: Sequence[float], b: Sequence[float]) -> float:
    """Jensen-Shannon divergence in bits, from 0 to 1; finite without smoothing."""
    mean = [(x + y) / 2 for x, y in zip(a, b, strict=True)]
    halves = (
        sum(x * math.log2(x / m) for x, m in zip(p, mean, strict=True) if x > 0) for p in (a, b)
    )
    return min(1.0, max(0.0, sum(halves) / 2))


def wasserstein(a: Sequence[float], b: Sequence[float], scale: LabelScale) -> float:
    """Wasserstein distance in steps of the scale; nominal labels are all one step apart."""
    if scale.nominal:
        return sum(abs(x - y) for x, y in zip(a, b, strict=True)) / 2
    gaps = np.diff(np.asarray(scale.positions))
    apart = np.cumsum(np.asarray(a) - np.asarray(b))[:-1]
    return float(np.abs(apart) @ gaps)


def l2(a: Sequence[float], b: Sequence[float]) -> float:
    """Euclidean distance."""
    return math.dist(a, b)


def coupling_nmi(a: Sequence[float], b: Sequence[float]) -> float:
    """Normalised mutual information of the coupling in which both agree as often as they can.

    0 for disjoint distributions, 1 for equal ones. It says no more than their overlap, sum of
    min(a, b), does. The paper defines no joint distribution; this one is a choice.
    """
    overlap = [min(x, y) for x, y in zip(a, b, strict=True)]
    shared = sum(overlap)
    joint = np.diag(overlap).astype(float)
    if shared < 1:
        rest_a, rest_b = np.subtract(a, overlap), np.subtract(b, overlap)
        joint += np.outer(rest_a, rest_b) / (1 - shared)
    return nmi(joint)


def nmi(joint: np.ndarray) -> float:
    """I / max(H_X, H_Y) of a joint distribution, [labels, labels], from 0 to 1.

    Where both entropies are 0: 1 for equal labels, else 0.
    """
    mutual, h_a, h_b = _information(joint)
    most = max(h_a, h_b)
    if most < 1e-12:
        return float(np.trace(joint) > 0.5)
    return min(1.0, max(0.0, mutual / most))


def _information(joint: np.ndarray) -> tuple[float, float, float]:
    a, b = joint.sum(axis=1), joint.sum(axis=0)
    independent = np.outer(a, b)
    there = joint > 0
    mutual = float(np.sum(joint[there] * np.log2(joint[there] / independent[there])))
    return mutual, entropy(a.tolist()), entropy(b.tolist())


def evidence_overlap(one: Sequence[str], other: Sequence[str]) -> float | None:
    """Jaccard index of the words that two sides quote; None where neither quotes any."""
    a, b = (_words(quotes) for quotes in (one, other))
    every = a | b
    return sum((a & b).values()) / sum(every.values()) if every else None


def _words(quotes: Sequence[str]) -> Counter[str]:
    return Counter(set(re.findall(r"\w+", " ".join(quotes).casefold())))


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Two distributions against each other; a row of the paper's Table 9 and more.

    Attributes:
        wd: in steps. wd_share: over the scale's width.
        kl, jsd, ce, h_a, h_b: in bits. nce: `ce` over log2 n.
        nmi: of `coupling_nmi`.
        smoothed: KL and cross entropy were infinite without smoothing.
    """

    wd: float
    wd_share: float
    kl: float
    jsd: float
    ce: float
    nce: float
    h_a: float
    h_b: float
    nmi: float
    smoothed: bool


def metrics(a: Sequence[float], b: Sequence[float], scale: LabelScale) -> Metrics:
    """All metrics of two distributions over a scale."""
    wd = wasserstein(a, b, scale)
    return Metrics(
        wd=wd,
        wd_share=wd / scale.width,
        kl=kl(a, b),
        jsd=jsd(a, b),
        ce=cross_entropy(a, b),
        nce=normalised_cross_entropy(a, b),
        h_a=entropy(a),
        h_b=entropy(b),
        nmi=coupling_nmi(a, b),
        smoothed=needs_smoothing(a, b),
    )


def mean_metrics(several: Sequence[Metrics]) -> Metrics:
    """The mean of each figure, where two positions are rated (a choice)."""
    number = len(several)
    return Metrics(
        wd=sum(m.wd for m in several) / number,
        wd_share=sum(m.wd_share for m in several) / number,
        kl=sum(m.kl for m in several) / number,
        jsd=sum(m.jsd for m in several) / number,
        ce=sum(m.ce for m in several) / number,
        nce=sum(m.nce for m in several) / number,
        h_a=sum(m.h_a for m in several) / number,
        h_b=sum(m.h_b for m in several) / number,
        nmi=sum(m.nmi for m in several) / number,
        smoothed=any(m.smoothed for m in several),
    )
