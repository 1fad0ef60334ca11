"""Several referees on the same labelled statements: one table, one recommendation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rldf_ray.errors import UserError
from rldf_ray.figures.estimates import shown, signed
from rldf_ray.stats import Estimate, auc_difference

MOST_FAILED = 0.1
"""A referee that leaves a larger share of the statements without a score is not recommended."""
Scores = Mapping[tuple[str, str], float]
"""Context and text of a statement -> its score."""


@dataclass(frozen=True, kw_only=True)
class RefereeRow:
    """What the audit of one referee came to.

    Attributes:
        audit: its audit.json.
        labels: of the statements it was audited on, by context and text.
        clusters: what each of them was drawn with (`LabelledStatement.cluster`).
        seconds: of the audit's last start; a start that goes on with another's calls is shorter.
        tokens: read and written, by a trained referee as by a language model.
    """

    name: str
    audit: Mapping[str, Any]
    scores: Scores
    labels: Mapping[tuple[str, str], int]
    clusters: Mapping[tuple[str, str], str]
    seconds: float
    tokens: int

    @property
    def auc(self) -> float | None:
        auc: float | None = self.audit["auc"]
        return auc

    @property
    def fails(self) -> bool:
        """Whether it leaves more than a tenth of the statements without a score."""
        return len(self.scores) < (1 - MOST_FAILED) * len(self.labels)

    @property
    def separates(self) -> bool:
        """Whether its AUC's interval is above chance."""
        held_out = self.audit["held_out"]
        return bool(held_out) and (held_out["auc_low"] or 0) > 0.5


def check_same(rows: Sequence[RefereeRow]) -> None:
    """All were audited on the same statements.

    Raises:
        UserError: one was not, as in a folder of an earlier comparison.
    """
    first = rows[0]
    for row in rows:
        if row.labels != first.labels:
            raise UserError(
                f"{row.name} was audited on {len(row.labels)} statements, and {first.name} on "
                f"{len(first.labels)} that are not the same: their audits are of an earlier "
                "comparison with other referees; choose a new folder for --out"
            )


def difference(row: RefereeRow, other: RefereeRow) -> Estimate | None:
    """AUC of one less that of the other, on the statements that both scored."""
    common = sorted(row.scores.keys() & other.scores.keys())
    return auc_difference(
        [row.labels[s] for s in common],
        [row.scores[s] for s in common],
        [other.scores[s] for s in common],
        [row.clusters[s] for s in common],
    )


def recommendation(rows: Sequence[RefereeRow]) -> str:
    """Which referee to take, and why, in plain words.

    The one with the fewest tokens of those that are not shown to be worse than the best one.
    """
    failing = ", ".join(
        f"{row.name} gave {len(row.scores)} of {len(row.labels)} scores and is left out"
        for row in rows
        if row.fails
    )
    left_out = f" ({failing}.)" if failing else ""
    known = [row for row in rows if not row.fails and row.auc is not None and row.separates]
    if not known:
        return (
            "Take none of them: not one is shown to tell biased from fair statements better than "
            f"a coin.{left_out}"
        )
    return _taken(known) + left_out


def _taken(known: Sequence[RefereeRow]) -> str:
    """The sentence, of referees that are shown to be better than a coin."""
    best = max(known, key=lambda row: row.auc or 0)
    equal = [row for row in known if row is best or not _worse(row, best)]
    cheapest = min(equal, key=lambda row: (row.tokens, row.seconds))
    figures = f"AUC {cheapest.auc:.3f}, {cheapest.seconds:.0f} s, {cheapest.tokens:,} tokens"
    if cheapest is best:
        compared = [row for row in known if row is not best and _apart(row, best)]
        others = ", and no cheaper one does as well" if compared else ""
        unknown = ", ".join(row.name for row in known if row is not best and row not in compared)
        beside = unknown and f" ({unknown}: too few statements in common with it to compare.)"
        return f"Take {best.name} ({figures}): it has the highest AUC{others}.{beside}"
    apart = difference(best, cheapest)
    assert apart is not None and best.auc is not None
    return (
        f"Take {cheapest.name} ({figures}): {best.name} has the highest AUC ({best.auc:.3f}), but "
        f"is not shown to be better ({_signed(apart)}), and takes "
        f"{best.tokens:,} tokens."
    )


def _worse(row: RefereeRow, best: RefereeRow) -> bool:
    """Also where they scored too few of the same statements to know."""
    apart = _apart(row, best)
    return apart is None or apart.low is None or apart.low > 0


def _apart(row: RefereeRow, best: RefereeRow) -> Estimate | None:
    """By how much the best is better; None where it is not known whether it is."""
    apart = difference(best, row)
    return None if apart is None or apart.low is None else apart


def _signed(estimate: Estimate) -> str:
    return f"{estimate.value:+.3f}, 95 % interval {estimate.low:+.3f} to {estimate.high:+.3f}"


def comparison_table(rows: Sequence[RefereeRow]) -> list[list[str]]:
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
    return [head, *(_cells(row, rows[0]) for row in rows)]


def _cells(row: RefereeRow, first: RefereeRow) -> list[str]:
    audit, held_out = row.audit, row.audit["held_out"]
    return [
        row.name,
        "–" if not held_out else shown(estimate_of(held_out)),
        "" if row is first else signed(difference(row, first)),
        _value(audit["brier"]),
        _value(audit["accuracy"]),
        _order(audit["reordered"]),
        *(_bias(audit["biases"][name]) for name in ("verbosity", "bandwagon", "cot")),
        "–" if audit["failure_rate"] is None else f"{audit['failure_rate']:.3f}",
        f"{row.tokens:,}",
        f"{row.seconds:.0f}",
    ]


def estimate_of(auc: Mapping[str, Any]) -> Estimate:
    """An AUC from the names report.json uses."""
    return Estimate(auc["auc"], auc["auc_low"], auc["auc_high"], auc["n"])


def _value(estimate: Mapping[str, Any] | None) -> str:
    return "–" if estimate is None else f"{estimate['value']:.3f}"


def _order(reordered: Mapping[str, Any] | None) -> str:
    """Measured, or what does not depend on the order and was not asked."""
    if reordered is not None and reordered.get("by") == "construction":
        return "by construction"
    return _value((reordered or {}).get("agreement"))


def _bias(found: Mapping[str, Any]) -> str:
    """Labels that change, and the mean change of the score."""
    changes, shift = found["label_changes"], found["shift"]
    if changes is None or shift is None:
        return "–"
    return f"{changes['value']:.3f} ({shift['value']:+.2f})"


def as_facts(rows: Sequence[RefereeRow]) -> dict[str, Any]:
    """comparison.json."""
    first = rows[0]
    differences = {row.name: difference(row, first) for row in rows[1:]}
    return {
        "referees": {
            row.name: {"audit": row.audit, "seconds": row.seconds, "tokens": row.tokens}
            for row in rows
        },
        "on_the_first": {n: None if d is None else asdict(d) for n, d in differences.items()},
        "recommendation": recommendation(rows),
    }
