"""Rows of a study's tables, and the way back: what was recorded, as it was steered by.

outcomes    one a dialogue, and one a baseline
rounds      one a round of a dialogue
arguments   one an argument
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

import pyarrow as pa

from rldf_ray.protocols.evince.arguments import (
    QUOTE_NOT_FOUND,
    WEAK,
    Argument,
    ReasonScores,
    own_quality,
    rival_quality,
)
from rldf_ray.protocols.evince.decision import Decision
from rldf_ray.protocols.evince.dialogue import Dispute, Spoken
from rldf_ray.protocols.evince.metrics import Metrics, evidence_overlap, wasserstein
from rldf_ray.protocols.evince.scale import Distribution, LabelScale
from rldf_ray.protocols.evince.settings import EvinceSettings
from rldf_ray.protocols.evince.steering import conditions, phase_of
from rldf_ray.protocols.evince.trace import OTHER, Round, Side, Trace

Row = Mapping[str, Any]

_DISTRIBUTIONS = pa.list_(pa.list_(pa.float64()))
METRICS = tuple(one.name for one in fields(Metrics))
SCORES = tuple(one.name for one in fields(ReasonScores))

OUTCOMES = pa.schema(
    [
        pa.field("item_id", pa.string()),
        # An arm, or a baseline.
        pa.field("arm", pa.string()),
        # agreed, converged, no progress, max rounds, failed; "answer" or "failed" of a baseline.
        pa.field("status", pa.string()),
        # Of those that did not fail: why answers of a baseline, or the justification, cannot be
        # used.
        pa.field("failure", pa.string()),
        pa.field("rounds", pa.int16()),
        pa.field("distributions", _DISTRIBUTIONS),
        # The likeliest label of the distribution that counts, and the position to be expected
        # under it; then both of the percentages as they were written (`settings.distribution`).
        pa.field("label", pa.string()),
        pa.field("mean_position", pa.float64()),
        pa.field("said_label", pa.string()),
        pa.field("said_mean_position", pa.float64()),
        pa.field("weight_a", pa.float64()),
        pa.field("weight_b", pa.float64()),
        pa.field("review", pa.list_(pa.string())),
        pa.field("dual", pa.bool_()),
        # Of a baseline: those that could be used.
        pa.field("answers", pa.int16()),
        pa.field("generated_tokens", pa.int64()),
        pa.field("remediation", pa.string()),
    ]
)

ROUNDS = pa.schema(
    [
        pa.field("item_id", pa.string()),
        pa.field("arm", pa.string()),
        pa.field("round", pa.int16()),
        pa.field("level", pa.float64()),
        pa.field("phase", pa.string()),
        pa.field("a", _DISTRIBUTIONS),
        pa.field("b", _DISTRIBUTIONS),
        # As written, where they are distributions; and the raw sums of the percentages.
        pa.field("said_a", _DISTRIBUTIONS),
        pa.field("said_b", _DISTRIBUTIONS),
        pa.field("sums_a", pa.list_(pa.int64())),
        pa.field("sums_b", pa.list_(pa.int64())),
        # Steps between what a side wrote and what counts for it.
        pa.field("said_wd_a", pa.float64()),
        pa.field("said_wd_b", pa.float64()),
        *(pa.field(name, pa.bool_() if name == "smoothed" else pa.float64()) for name in METRICS),
        pa.field("evidence_overlap", pa.float64()),
        pa.field("crit_a", pa.float64()),
        pa.field("crit_b", pa.float64()),
        pa.field("repeated_a", pa.float64()),
        pa.field("repeated_b", pa.float64()),
        pa.field("met", pa.list_(pa.string())),
    ]
)

ARGUMENTS = pa.schema(
    [
        pa.field("item_id", pa.string()),
        pa.field("arm", pa.string()),
        pa.field("argument_id", pa.string()),
        pa.field("side", pa.string()),
        pa.field("round", pa.int16()),
        pa.field("label", pa.string()),
        pa.field("claim", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("quote", pa.string()),
        # Counted in title, blank line and text, as `text` of remediation.json has them.
        pa.field("quote_at", pa.int64()),
        *(pa.field(name, pa.float64()) for name in SCORES),
        pa.field("own", pa.float64()),
        pa.field("rival", pa.float64()),
        pa.field("flags", pa.list_(pa.string())),
        pa.field("replies", pa.list_(pa.string())),
        pa.field("conceded", pa.bool_()),
    ]
)


def round_rows(
    item_id: str, arm: str, dispute: Dispute, settings: EvinceSettings, scale: LabelScale
) -> list[dict[str, Any]]:
    """The rounds of a dialogue."""
    rows = []
    for number, one in enumerate(dispute.rounds, start=1):
        a, b = dispute.turns["A", number], dispute.turns["B", number]
        met = conditions(dispute.rounds[:number], settings.stop)
        rows.append(
            {
                "item_id": item_id,
                "arm": arm,
                "round": number,
                "level": one.level,
                "phase": phase_of(one.level),
                "a": one.a,
                "b": one.b,
                "said_a": a.said.said,
                "said_b": b.said.said,
                "sums_a": a.said.raw_sums,
                "sums_b": b.said.raw_sums,
                "said_wd_a": _said_wd(a, scale),
                "said_wd_b": _said_wd(b, scale),
                **asdict(one.metrics),
                "evidence_overlap": evidence_overlap(_quotes(a), _quotes(b)),
                "crit_a": one.crit_a,
                "crit_b": one.crit_b,
                "repeated_a": one.repeated_a,
                "repeated_b": one.repeated_b,
                "met": [name for name, holds in met.items() if holds],
            }
        )
    return rows


def _said_wd(spoken: Spoken, scale: LabelScale) -> float | None:
    if spoken.said.said is None:
        return None
    return wasserstein(spoken.said.said[0], spoken.distributions[0], scale)


def _quotes(spoken: Spoken) -> list[str]:
    return [one.quote for one in spoken.said.arguments if one.quote_at is not None]


def argument_rows(
    item_id: str, arm: str, dispute: Dispute, settings: EvinceSettings
) -> list[dict[str, Any]]:
    """The arguments of a dialogue, each with its scores, its flags and the replies to it."""
    rows = []
    for (side, _), spoken in dispute.turns.items():
        for argument in spoken.said.arguments:
            scores = dispute.scores.get(argument.argument_id)
            rows.append(
                {
                    "item_id": item_id,
                    "arm": arm,
                    **asdict(argument),
                    **(asdict(scores) if scores else dict.fromkeys(SCORES)),
                    "own": own_quality(argument, scores) if scores else None,
                    "rival": rival_quality(argument, scores) if scores else None,
                    "flags": flags(argument, scores, settings.crit.weak),
                    "replies": _replies(argument, OTHER[side], dispute),
                    "conceded": any(
                        argument.argument_id in turn.said.concedes
                        for (who, _), turn in dispute.turns.items()
                        if who != side
                    ),
                }
            )
    return rows


def flags(argument: Argument, scores: ReasonScores | None, weak: float) -> list[str]:
    """Why a moderator looks at an argument."""
    found = [QUOTE_NOT_FOUND] if argument.misquotes else []
    if scores is not None and own_quality(argument, scores) < weak:
        found.append(WEAK)
    return found


def _replies(argument: Argument, other: Side, dispute: Dispute) -> list[str]:
    return [
        turn.said.answers[argument.argument_id]
        for (who, _), turn in dispute.turns.items()
        if who == other and argument.argument_id in turn.said.answers
    ]


def decision_fields(decision: Decision) -> dict[str, Any]:
    """A decision as an outcome holds it."""
    return asdict(decision)


def label_fields(
    distribution: Sequence[float] | None, scale: LabelScale, prefix: str = ""
) -> dict[str, Any]:
    """Label and expected position of a distribution as an outcome holds them."""
    if distribution is None:
        return {f"{prefix}label": None, f"{prefix}mean_position": None}
    position = None if scale.nominal else scale.mean_position(distribution)
    return {f"{prefix}label": scale.label_of(distribution), f"{prefix}mean_position": position}


def said_mixture(dispute: Dispute, decision: Decision) -> Distribution | None:
    """The percentages that both sides wrote last, weighted as the decision weighs them.

    None where either side wrote none that sum to about 100.
    """
    last = len(dispute.rounds)
    a, b = dispute.turns["A", last].said.said, dispute.turns["B", last].said.said
    if a is None or b is None:
        return None
    w_a, w_b = decision.weight_a, decision.weight_b
    return tuple(w_a * x + w_b * y for x, y in zip(a[0], b[0], strict=True))


def trace_of(rows: Iterable[Row]) -> Trace:
    """The trace of a dialogue from its rows in `rounds`."""
    return [
        Round(
            level=row["level"],
            a=_distributions(row["a"]),
            b=_distributions(row["b"]),
            metrics=Metrics(**{name: row[name] for name in METRICS}),
            crit_a=row["crit_a"],
            crit_b=row["crit_b"],
            repeated_a=row["repeated_a"],
            repeated_b=row["repeated_b"],
        )
        for row in sorted(rows, key=lambda row: row["round"])
    ]


def _distributions(several: Sequence[Sequence[float]]) -> tuple[Distribution, ...]:
    return tuple(tuple(one) for one in several)


def argument_of(row: Row) -> Argument:
    """The argument of a row."""
    return Argument(**{one.name: row[one.name] for one in fields(Argument)})


def scores_of(row: Row) -> ReasonScores | None:
    """The scores of a row; None where it was not rated."""
    if any(row[name] is None for name in SCORES):
        return None
    return ReasonScores(**{name: row[name] for name in SCORES})


def any_flagged(dispute: Dispute, weak: float) -> bool:
    """Whether an argument of the last round is one that a moderator looks at."""
    last = len(dispute.rounds)
    return any(
        flags(argument, dispute.scores.get(argument.argument_id), weak)
        for (_, number), spoken in dispute.turns.items()
        if number == last
        for argument in spoken.said.arguments
    )
