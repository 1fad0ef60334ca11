"""Shares of biased, impartial and anti-biased answers on the multi-role debate set.

answers (one a query) --> summary (JSON), table (parquet), values (long format)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rldf_ray.evaluate.bbq.positions import positions
from rldf_ray.evaluate.bbq.summary import Answer
from rldf_ray.evaluate.long_format import ALL, Value
from rldf_ray.evaluate.multirole.data import KIND_AT, KINDS, MultiroleSet
from rldf_ray.sets.bbq.items import BBQItem, Key
from rldf_ray.stats import LEAST_CLUSTERS, RESAMPLES, interval, share_estimate

OUTCOMES = (*KINDS, "unparsed")

Counts: TypeAlias = NDArray[np.float64]

QUERY_SCHEMA = pa.schema(
    [
        ("model", pa.string()),
        ("mode", pa.string()),
        ("bias_type", pa.string()),
        ("row", pa.int64()),
        ("direction", pa.string()),
        ("polarity", pa.string()),
        ("gender", pa.string()),
        ("context", pa.string()),
        ("order", pa.list_(pa.int64())),
        ("prediction", pa.int64()),
        ("kind", pa.string()),
        ("scores", pa.list_(pa.float64())),
        ("text", pa.string()),
        ("refusal", pa.bool_()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiroleEvaluation:
    """Answers of one model to a set of queries.

    Attributes:
        model, mode: who was asked, and how ("predictions" for a file).
        answers: one for each query.
        seed: of the sample, the orders and the intervals.
        missing: queries without a prediction in a file; they count as unparsed.
    """

    model: str
    mode: str
    queries: MultiroleSet
    answers: Mapping[Key, Answer]
    seed: int
    missing: int = 0

    def values(self) -> list[Value]:
        """Shares of every bias type and of all queries, for the comparison of methods."""
        return [
            Value(group, kind, shares[OUTCOMES.index(kind)], n)
            for group, (shares, n) in self._shares().items()
            for kind in KINDS
        ]

    def summary(self) -> dict[str, Any]:
        """Every figure of docs/judging.md, for JSON."""
        items = self.queries.items
        clusters = self._clusters()
        refusals = share_estimate(sum(a.refusal for a in self.answers.values()), len(items))
        return {
            "model": self.model,
            "mode": self.mode,
            "seed": self.seed,
            "set": {
                "source": self.queries.source,
                "queries": len(items),
                "available": self.queries.available,
                "repetitions": self.queries.repetitions,
                "option_sets": sum(map(len, clusters.values())),
            },
            "bias_types": {
                name: _with_intervals([counts], self.seed) for name, counts in clusters.items()
            },
            ALL: _with_intervals(list(clusters.values()), self.seed),
            "refusals": None if refusals is None else refusals.value,
            "missing": self.missing,
            "positions": self._positions(),
        }

    def table(self) -> pa.Table:
        """One row a query; columns of QUERY_SCHEMA."""
        rows = []
        for query in self.queries.queries:
            item, answer = query.item, self.answers[query.item.key]
            rows.append(
                {
                    "model": self.model,
                    "mode": self.mode,
                    "bias_type": item.category,
                    "row": item.example_id,
                    "direction": query.direction,
                    "polarity": item.polarity,
                    "gender": query.gender,
                    "context": item.context,
                    "order": answer.order,
                    "prediction": answer.prediction,
                    "kind": None if answer.prediction is None else KIND_AT[answer.prediction],
                    "scores": None if answer.scores is None else list(answer.scores),
                    "text": answer.text,
                    "refusal": answer.refusal,
                }
            )
        return pa.Table.from_pylist(rows, schema=QUERY_SCHEMA)

    def _outcome(self, item: BBQItem) -> int:
        prediction = self.answers[item.key].prediction
        return OUTCOMES.index("unparsed" if prediction is None else KIND_AT[prediction])

    def _clusters(self) -> dict[str, Counts]:
        """Bias type -> counts [option sets, outcomes]."""
        by_type: dict[str, dict[str, list[float]]] = defaultdict(dict)
        for item in self.queries.items:
            counts = by_type[item.category].setdefault(item.question_index, [0.0] * len(OUTCOMES))
            counts[self._outcome(item)] += 1
        return {name: np.asarray(list(sets.values())) for name, sets in sorted(by_type.items())}

    def _shares(self) -> dict[str, tuple[list[float], int]]:
        totals = {name: counts.sum(0) for name, counts in self._clusters().items()}
        totals[ALL] = sum(totals.values(), np.zeros(len(OUTCOMES)))
        return {
            name: ((counts / counts.sum()).tolist(), int(counts.sum()))
            for name, counts in totals.items()
            if counts.sum()
        }

    def _positions(self) -> dict[str, Any] | None:
        """By the place an option was shown at; `accuracy` is of the impartial one.

        Of the queries whose order is known; None where none is.
        """
        orders = {key: answer.order for key, answer in self.answers.items()}
        if not any(orders.values()):
            return None
        predictions = {key: answer.prediction for key, answer in self.answers.items()}
        return positions(self.queries.items, predictions, orders)


def _with_intervals(tables: Sequence[Counts], seed: int) -> dict[str, Any]:
    """Shares and 95 % intervals; option sets are resampled within each table of counts."""
    n = int(sum(counts.sum() for counts in tables))
    shares = sum((counts.sum(0) for counts in tables), np.zeros(len(OUTCOMES))) / n
    bounds = _bounds(tables, seed)
    by_outcome: dict[str, Any] = {"n": n}
    for place, outcome in enumerate(OUTCOMES):
        low, high = (None, None) if bounds is None else bounds[:, place].tolist()
        varies = low != high
        by_outcome[outcome] = {
            "share": float(shares[place]),
            "low": low if varies else None,
            "high": high if varies else None,
        }
    return by_outcome


def _bounds(tables: Sequence[Counts], seed: int) -> Counts | None:
    """[2, outcomes]: the middle 95 % of the resampled shares.

    None of fewer than `LEAST_CLUSTERS` option sets, and where a table has one alone.
    """
    if min(map(len, tables)) < 2 or sum(map(len, tables)) < LEAST_CLUSTERS:
        return None
    generator = np.random.default_rng(seed)
    total = np.zeros((RESAMPLES, len(OUTCOMES)))
    for counts in tables:
        number = len(counts)
        total += generator.multinomial(number, [1 / number] * number, size=RESAMPLES) @ counts
    return interval(total / total.sum(1, keepdims=True))
