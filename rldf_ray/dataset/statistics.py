"""What a data set is like, in figures: balance, scores, lengths, topics, what length gives away.

The reward model learns whatever separates chosen from rejected statements. Where length alone does,
it may learn length; so its AUC is measured and a warning says so.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.stats import rankdata

from rldf_ray.plan import Filter
from rldf_ray.records import Label

# An AUC of length beyond this, or below one minus this, is worth a warning.
TELLING_AUC = 0.6
BINS = 10
# Of a 95 % interval.
Z = 1.96


class Labelled(Protocol):
    """A text and its label: a statement, or a side of a pair."""

    @property
    def text(self) -> str: ...
    @property
    def topic_id(self) -> str: ...
    @property
    def bias_type(self) -> str: ...
    @property
    def label(self) -> Label | None: ...
    @property
    def label_score(self) -> float | None: ...


@dataclass(frozen=True, kw_only=True)
class Side:
    """One side of a pair, where there are no statements to look at."""

    text: str
    topic_id: str
    bias_type: str
    label: Label
    label_score: float | None


@dataclass(frozen=True)
class AUC:
    """Area under the ROC curve and its 95 % interval; the interval is None where it is unknown."""

    value: float
    low: float | None
    high: float | None
    n: int

    @property
    def tells(self) -> bool:
        """Beyond `TELLING_AUC` on either side, and not by chance."""
        if self.low is None or self.high is None:
            return False
        far = abs(self.value - 0.5) > TELLING_AUC - 0.5
        return far and not self.low <= 0.5 <= self.high


@dataclass(frozen=True)
class Lengths:
    """Words of a text: mean, median and 90th percentile over `n` texts."""

    n: int
    mean: float
    median: float
    p90: float


@dataclass(frozen=True, kw_only=True)
class Quality:
    """The statements the data were made of, and the pairs.

    Attributes:
        statements: all of them, labelled or not, before any filter.
        dropped: statements dropped, by filter.
        labels: `high`, `low` and `unlabelled` statements that were kept, by bias type.
        scores: kept `high` and `low` statements by score: [0, 1), [1, 2) ... [9, 10].
        lengths: of kept `high` and `low` statements, and of `chosen` and `rejected` sides.
        topics: topics with statements of one label only (`high_only`, `low_only`) and of `both`,
            the only ones that can pair.
        length_auc: the chance that a high-bias statement is longer, in characters, than a low-bias
            one; equal lengths count half.
        chosen_longer: share of the pairs whose chosen side is the longer one; None without pairs.
    """

    statements: int
    dropped: Mapping[Filter, int]
    labels: Mapping[str, Mapping[str, int]]
    scores: Mapping[str, Sequence[int]]
    lengths: Mapping[str, Lengths | None]
    topics: Mapping[str, int]
    length_auc: AUC | None
    chosen_longer: float | None

    def as_dict(self) -> dict[str, Any]:
        """The `quality` part of the stage's manifest and of report.json."""
        return {**asdict(self), "warnings": self.warnings()}

    def warnings(self) -> list[str]:
        """What a user of the data should know before training on them."""
        auc = self.length_auc
        if auc is None or not auc.tells:
            return []
        which = "longer" if auc.value > 0.5 else "shorter"
        warning = (
            f"Length alone predicts the label: high-bias statements are {which} than low-bias ones "
            f"(AUC of length {auc.value:.2f}, 95 % interval {auc.low:.2f} to {auc.high:.2f}). A "
            "reward model may learn to prefer a length."
        )
        return [warning]


def quality_of(
    statements: int, dropped: Mapping[Filter, int], kept: Sequence[Labelled], pairs: pa.Table
) -> Quality:
    """Figures of `kept`, what the filters left of `statements`, and of the pairs made of them."""
    by_label = {label: [s for s in kept if s.label == label] for label in ("high", "low")}
    chosen, rejected = (_answers(pairs, side) for side in ("chosen", "rejected"))
    texts = {label: [s.text for s in labelled] for label, labelled in by_label.items()}
    return Quality(
        statements=statements,
        dropped=dropped,
        labels=_labels(kept),
        scores={label: _histogram(labelled) for label, labelled in by_label.items()},
        lengths={
            name: _lengths(written)
            for name, written in {**texts, "chosen": chosen, "rejected": rejected}.items()
        },
        topics=_topics(by_label["high"], by_label["low"]),
        length_auc=_length_auc(by_label["high"], by_label["low"]),
        chosen_longer=_share_longer(chosen, rejected),
    )


def sides_of(pairs: pa.Table) -> list[Side]:
    """The sides of the pairs, each once: what the figures are of where pairs were given."""
    names: tuple[tuple[str, Label], ...] = (("chosen", "low"), ("rejected", "high"))
    sides = (
        Side(
            text=row[side][-1]["content"],
            topic_id=row["topic_id"],
            bias_type=row["bias_type"],
            label=label,
            label_score=row[f"{side}_score"],
        )
        for row in pairs.to_pylist()
        for side, label in names
    )
    return list(dict.fromkeys(sides))


def clustered_auc(
    positive: Sequence[float],
    negative: Sequence[float],
    positive_clusters: Sequence[str],
    negative_clusters: Sequence[str],
) -> AUC | None:
    """The chance that a positive value is above a negative one, with a 95 % interval.

    Values of one cluster need not be independent (Obuchowski 1997, the clustered form of DeLong's
    variance): statements of one topic answer each other. Where one kind is above the other without
    exception, that variance is 0, and the interval is Wilson's of as many successes as clusters.
    It is None with fewer than two clusters; the result is None unless both kinds occur.
    """
    if not positive or not negative:
        return None
    x, y = np.asarray(positive, float), np.asarray(negative, float)
    ranks = rankdata(np.concatenate([x, y]))
    above = (ranks[: len(x)] - rankdata(x)) / len(y)
    below = 1 - (ranks[len(x) :] - rankdata(y)) / len(x)
    value = float(above.mean())
    shares: defaultdict[str, float] = defaultdict(float)
    for names, placed in ((positive_clusters, above), (negative_clusters, below)):
        for name, deviation in zip(names, (placed - value) / len(placed), strict=True):
            shares[name] += float(deviation)
    low, high = _interval(value, list(shares.values()))
    return AUC(value, low, high, len(x) + len(y))


def _interval(value: float, shares: Sequence[float]) -> tuple[float | None, float | None]:
    """From each cluster's share of the estimate's deviation."""
    clusters = len(shares)
    if clusters < 2:
        return None, None
    if value in (0.0, 1.0):
        wilson = clusters / (clusters + Z**2)
        return (wilson, 1.0) if value else (0.0, 1 - wilson)
    variance = clusters / (clusters - 1) * math.fsum(share**2 for share in shares)
    margin = Z * math.sqrt(variance)
    return max(0.0, value - margin), min(1.0, value + margin)


def _length_auc(high: Sequence[Labelled], low: Sequence[Labelled]) -> AUC | None:
    return clustered_auc(
        [len(s.text) for s in high],
        [len(s.text) for s in low],
        [s.topic_id for s in high],
        [s.topic_id for s in low],
    )


def _labels(kept: Sequence[Labelled]) -> dict[str, dict[str, int]]:
    counts = Counter((s.bias_type, s.label or "unlabelled") for s in kept)
    return {
        name: {label: counts[name, label] for label in ("high", "low", "unlabelled")}
        for name in sorted({s.bias_type for s in kept})
    }


def _histogram(statements: Sequence[Labelled]) -> list[int]:
    known = [s.label_score for s in statements if s.label_score is not None]
    counts: NDArray[np.int64] = np.histogram(known, bins=BINS, range=(0, 10))[0]
    return [int(count) for count in counts]


def _lengths(texts: Sequence[str]) -> Lengths | None:
    if not texts:
        return None
    words = np.asarray([len(text.split()) for text in texts])
    mean, median, p90 = words.mean(), np.median(words), np.quantile(words, 0.9)
    return Lengths(len(texts), float(mean), float(median), float(p90))


def _topics(high: Sequence[Labelled], low: Sequence[Labelled]) -> dict[str, int]:
    highs, lows = ({s.topic_id for s in labelled} for labelled in (high, low))
    return {
        "high_only": len(highs - lows),
        "low_only": len(lows - highs),
        "both": len(highs & lows),
    }


def _answers(pairs: pa.Table, side: str) -> list[str]:
    return [messages[-1]["content"] for messages in pairs[side].to_pylist()]


def _share_longer(chosen: Sequence[str], rejected: Sequence[str]) -> float | None:
    if not chosen:
        return None
    longer = sum(len(one) > len(other) for one, other in zip(chosen, rejected, strict=True))
    return longer / len(chosen)
