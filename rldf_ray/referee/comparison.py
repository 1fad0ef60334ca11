"""Several referees on the same labelled statements: one table, one recommendation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rldf_ray.stats import Estimate, auc_difference

Scores = Mapping[tuple[str, str], float]
"""Context and text of a statement -> its score."""


@dataclass(frozen=True, kw_only=True)
class RefereeRow:
    """What the audit of one referee came to.

    Attributes:
        audit: its audit.json.
        labels: of the statements it scored, by context and text.
        tokens: read and written.
    """

    name: str
    audit: Mapping[str, Any]
    scores: Scores
    labels: Mapping[tuple[str, str], int]
    seconds: float
    tokens: int

    @property
    def auc(self) -> float | None:
        auc: float | None = self.audit["auc"]
        return auc

    @property
    def separates(self) -> bool:
        """Whether its AUC's interval is above chance."""
        held_out = self.audit["held_out"]
        return bool(held_out) and (held_out["auc_low"] or 0) > 0.5


def difference(row: RefereeRow, other: RefereeRow, seed: int) -> Estimate | None:
    """AUC of one less that of the other, on the statements that both scored."""
    common = sorted(row.scores.keys() & other.scores.keys())
    return auc_difference(
        [row.labels[s] for s in common],
        [row.scores[s] for s in common],
        [other.scores[s] for s in common],
        seed,
    )


def recommendation(rows: Sequence[RefereeRow], seed: int) -> str:
    """Which referee to take, and why, in plain words.

    The cheapest of those that are not shown to be worse than the best one.
    """
    known = [row for row in rows if row.auc is not None and row.separates]
    if not known:
        return (
            "Take none of them: not one is shown to tell biased from fair statements better than "
            "a coin."
        )
    best = max(known, key=lambda row: row.auc or 0)
    equal = [row for row in known if row is best or not _worse(row, best, seed)]
    cheapest = min(equal, key=lambda row: (row.seconds, row.tokens))
    figures = f"AUC {cheapest.auc:.3f}, {cheapest.seconds:.0f} s, {cheapest.tokens:,} tokens"
    if cheapest is best:
        others = "" if len(known) == 1 else ", and no cheaper one does as well"
        return f"Take {best.name} ({figures}): it has the highest AUC{others}."
    apart = difference(best, cheapest, seed)
    assert apart is not None and best.auc is not None
    return (
        f"Take {cheapest.name} ({figures}): {best.name} has the highest AUC ({best.auc:.3f}), but "
        f"is not shown to be better ({apart.value:+.3f}, {_interval(apart)}), and takes "
        f"{best.seconds / max(cheapest.seconds, 1e-9):.1f} times as long."
    )


def _worse(row: RefereeRow, best: RefereeRow, seed: int) -> bool:
    apart = difference(best, row, seed)
    return apart is not None and apart.low is not None and apart.low > 0


def _interval(estimate: Estimate) -> str:
    return f"95 % interval {estimate.low:+.3f} to {estimate.high:+.3f}"


def comparison_table(rows: Sequence[RefereeRow], seed: int) -> list[list[str]]:
    """The table, its head first; differences are from the first referee."""
    head = [
        "referee",
        "AUC (95 %)",
        "on the first",
        "Brier",
        "right at the threshold",
        "order agreement",
        "verbosity",
        "bandwagon",
        "chain of thought",
        "failed",
        "tokens",
        "seconds",
    ]
    return [head, *(_cells(row, rows[0], seed) for row in rows)]


def _cells(row: RefereeRow, first: RefereeRow, seed: int) -> list[str]:
    audit, held_out = row.audit, row.audit["held_out"]
    apart = None if row is first else difference(row, first, seed)
    return [
        row.name,
        "–"
        if not held_out
        else f"{held_out['auc']:.3f} ({held_out['auc_low']:.3f} to {held_out['auc_high']:.3f})",
        "" if apart is None else f"{apart.value:+.3f} ({apart.low:+.3f} to {apart.high:+.3f})",
        _value(audit["brier"]),
        _value(audit["accuracy"]),
        _value((audit["reordered"] or {}).get("agreement")),
        *(_bias(audit["biases"][name]) for name in ("verbosity", "bandwagon", "cot")),
        "–" if audit["failure_rate"] is None else f"{audit['failure_rate']:.3f}",
        f"{row.tokens:,}",
        f"{row.seconds:.0f}",
    ]


def _value(estimate: Mapping[str, Any] | None) -> str:
    return "–" if estimate is None else f"{estimate['value']:.3f}"


def _bias(found: Mapping[str, Any]) -> str:
    """Labels that change, and the mean change of the score."""
    changes, shift = found["label_changes"], found["shift"]
    if changes is None or shift is None:
        return "–"
    return f"{changes['value']:.3f} ({shift['value']:+.2f})"


def as_facts(rows: Sequence[RefereeRow], seed: int) -> dict[str, Any]:
    """comparison.json."""
    first = rows[0]
    differences = {row.name: difference(row, first, seed) for row in rows[1:]}
    return {
        "referees": {
            row.name: {"audit": row.audit, "seconds": row.seconds, "tokens": row.tokens}
            for row in rows
        },
        "on_the_first": {n: None if d is None else asdict(d) for n, d in differences.items()},
        "recommendation": recommendation(rows, seed),
    }
