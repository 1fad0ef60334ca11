"""What a data set is like, in figures: balance, scores, lengths, topics, what length gives away.

The reward model learns whatever separates chosen from rejected statements. Where length alone does,
it may learn length; so its AUC is measured and a warning says so.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rldf_ray.plan import Filter
from rldf_ray.records import Label, LabelSource
from rldf_ray.stats import Estimate, auc_estimate

# An AUC of length beyond this, or below one minus this, is worth a warning.
TELLING_AUC = 0.6
BINS = 10


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
    @property
    def label_source(self) -> LabelSource: ...


class Measured:
    """What the figures need of texts: numbers of each, as a million texts would not fit."""

    def __init__(self, texts: Iterable[Labelled] = ()) -> None:
        self.labels: Counter[tuple[str, Label | None]] = Counter()
        self.sources: Counter[LabelSource] = Counter()
        self._by_label: dict[Label | None, _Columns] = {"high": _Columns(), "low": _Columns()}
        self._topics: dict[str, int] = {}
        for one in texts:
            self.add(one.text, one.topic_id, one.bias_type, one.label, one.label_score)
            if one.label is not None:
                self.sources[one.label_source] += 1

    def add(
        self, text: str, topic_id: str, bias_type: str, label: Label | None, score: float | None
    ) -> None:
        self.labels[bias_type, label] += 1
        columns = self._by_label.get(label)
        if columns is not None:
            columns.characters.append(len(text))
            columns.words.append(len(text.split()))
            columns.topics.append(self._topics.setdefault(topic_id, len(self._topics)))
            columns.scores.append(math.nan if score is None else score)

    @property
    def high(self) -> _Columns:
        return self._by_label["high"]

    @property
    def low(self) -> _Columns:
        return self._by_label["low"]


class _Columns:
    def __init__(self) -> None:
        self.characters = array("q")
        self.words = array("q")
        self.topics = array("q")
        self.scores = array("d")


class MeasuredPairs:
    """What the figures need of pairs: the lengths of their sides."""

    def __init__(self, batches: Iterable[pa.RecordBatch] = ()) -> None:
        self.chosen_words = array("q")
        self.rejected_words = array("q")
        self._chosen_longer = 0
        for batch in batches:
            sides = (batch[side].to_pylist() for side in ("chosen", "rejected"))
            for chosen, rejected in zip(*sides, strict=True):
                self.add(chosen[-1]["content"], rejected[-1]["content"])

    def add(self, chosen: str, rejected: str) -> None:
        self.chosen_words.append(len(chosen.split()))
        self.rejected_words.append(len(rejected.split()))
        self._chosen_longer += len(chosen) > len(rejected)

    @property
    def chosen_longer(self) -> float | None:
        """The share of pairs whose chosen side is the longer one; None without pairs."""
        return self._chosen_longer / len(self.chosen_words) if self.chosen_words else None


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
        label_sources: kept `high` and `low` statements by the score that labels them; of two, which
            are no one scale, `scores` counts both.
        sides: no statements were labelled: `high` are the rejected and `low` the chosen sides of
            the pairs, each counted once.
    """

    statements: int
    dropped: Mapping[Filter, int]
    labels: Mapping[str, Mapping[str, int]]
    scores: Mapping[str, Sequence[int]]
    lengths: Mapping[str, Lengths | None]
    topics: Mapping[str, int]
    length_auc: Estimate | None
    chosen_longer: float | None
    label_sources: Mapping[LabelSource, int]
    sides: bool = False

    def as_dict(self) -> dict[str, Any]:
        """The `quality` part of the stage's manifest and of report.json."""
        figures = {**asdict(self), "warnings": self.warnings()}
        if not self.sides:
            del figures["sides"]
        if not self._mixed:
            del figures["label_sources"]
        return figures

    @property
    def _mixed(self) -> bool:
        return len(self.label_sources) > 1

    def warnings(self) -> list[str]:
        """What a user of the data should know before training on them."""
        return [*self._of_mixed_scores(), *self._of_length()]

    def _of_mixed_scores(self) -> Iterator[str]:
        if self._mixed:
            yield (
                f"{self.label_sources['said']} of {sum(self.label_sources.values())} labelled "
                "statements have their labels from the score the referee said, the others from "
                "its expectation. These are no one scale: no pair has a side of each, and figures "
                "of scores count both."
            )

    def _of_length(self) -> Iterator[str]:
        auc = self.length_auc
        if auc is None or not length_tells(auc):
            return
        which = "longer" if auc.value > 0.5 else "shorter"
        tells = (
            f"tells the sides of pairs apart: rejected texts are {which} than chosen ones"
            if self.sides
            else f"predicts the label: high-bias statements are {which} than low-bias ones"
        )
        yield (
            f"Length alone {tells} (AUC of length {auc.value:.2f}, 95 % interval {auc.low:.2f} to "
            f"{auc.high:.2f}). A reward model may learn to prefer a length."
        )


def quality_of(
    statements: int,
    dropped: Mapping[Filter, int],
    kept: Measured,
    pairs: MeasuredPairs,
    *,
    sides: bool = False,
) -> Quality:
    """Figures of `kept`, what the filters left of `statements`, and of the pairs made of them.

    Args:
        sides: `kept` are the sides of the pairs.
    """
    high, low = kept.high, kept.low
    return Quality(
        statements=statements,
        dropped=dropped,
        labels=_labels(kept.labels),
        scores={"high": _histogram(high.scores), "low": _histogram(low.scores)},
        lengths={
            "high": _lengths(high.words),
            "low": _lengths(low.words),
            "chosen": _lengths(pairs.chosen_words),
            "rejected": _lengths(pairs.rejected_words),
        },
        topics=_topics(high.topics, low.topics),
        length_auc=_length_auc(high, low),
        chosen_longer=pairs.chosen_longer,
        label_sources=dict(kept.sources),
        sides=sides,
    )


def length_tells(auc: Estimate) -> bool:
    """Whether it is beyond `TELLING_AUC` on either side, and not by chance."""
    if auc.low is None or auc.high is None:
        return False
    far = abs(auc.value - 0.5) > TELLING_AUC - 0.5
    return far and not auc.low <= 0.5 <= auc.high


def _length_auc(high: _Columns, low: _Columns) -> Estimate | None:
    """Statements on one topic answer each other, and so are one draw."""
    labels = array("b", [1]) * len(high.topics) + array("b", [0]) * len(low.topics)
    return auc_estimate(labels, high.characters + low.characters, high.topics + low.topics)


def _labels(counts: Mapping[tuple[str, Label | None], int]) -> dict[str, dict[str, int]]:
    names: dict[str, Label | None] = {"high": "high", "low": "low", "unlabelled": None}
    return {
        bias_type: {name: counts.get((bias_type, label), 0) for name, label in names.items()}
        for bias_type in sorted({bias_type for bias_type, _ in counts})
    }


def _histogram(scores: Sequence[float]) -> list[int]:
    # NaN, a text without a score, is in no bin.
    known = [score for score in scores if not math.isnan(score)]
    counts: NDArray[np.int64] = np.histogram(known, bins=BINS, range=(0, 10))[0]
    return [int(count) for count in counts]


def _lengths(words: Sequence[int]) -> Lengths | None:
    if not words:
        return None
    column = np.asarray(words)
    mean, median, p90 = column.mean(), np.median(column), np.quantile(column, 0.9)
    return Lengths(len(words), float(mean), float(median), float(p90))


def _topics(high: Sequence[int], low: Sequence[int]) -> dict[str, int]:
    highs, lows = set(high), set(low)
    return {
        "high_only": len(highs - lows),
        "low_only": len(lows - highs),
        "both": len(highs & lows),
    }
