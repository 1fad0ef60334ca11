"""How well the run's referee tells biased from fair statements whose label we know."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rldf_ray.debate.agents import Referee, Verdict
from rldf_ray.evaluate.stats import Estimate, auc_estimate
from rldf_ray.prompts import LabelledStatement
from rldf_ray.records import LabelSource


@dataclass(frozen=True)
class Audited:
    """A labelled statement and what the referee said of it."""

    statement: LabelledStatement
    verdict: Verdict


async def audit_referee(
    referee: Referee,
    statements: Sequence[LabelledStatement],
    in_flight: int,
    on_statement: Callable[[], None] = lambda: None,
) -> list[Audited]:
    """The labelled statements in their order, each judged alone in its context."""
    seats = asyncio.Semaphore(in_flight)

    async def one(statement: LabelledStatement) -> Audited:
        address = f"audit/{statement.pair}/{statement.label}"
        async with seats:
            (verdict,) = await referee.judge(
                statement.context, [statement.text], address, affinity=address
            )
        on_statement()
        return Audited(statement, verdict)

    return await asyncio.gather(*map(one, statements))


def audit_summary(
    audited: Sequence[Audited], kind: str, label_source: LabelSource, seed: int
) -> dict[str, Any]:
    """The `referee` part of report.json (docs/report.md)."""

    def auc(chosen: Sequence[Audited], source: LabelSource = label_source) -> Estimate | None:
        known = [(a.statement.label, score_of(a.verdict, source)) for a in chosen]
        scored = [(label, score) for label, score in known if score is not None]
        return auc_estimate([y for y, _ in scored], [s for _, s in scored], seed)

    names = sorted({a.statement.bias_type for a in audited})
    said = auc(audited, "said")
    estimate = auc(audited)
    return {
        "kind": kind,
        "model": audited[0].verdict.model if audited else None,
        "label_source": label_source,
        "held_out": as_auc(estimate),
        "by_bias_type": {
            name: as_auc(auc([a for a in audited if a.statement.bias_type == name]))
            for name in names
        },
        "said_auc": said.value if said else None,
        "distinct_said_scores": len({a.verdict.score for a in audited} - {None}),
        "failures": sum(a.verdict.failure is not None for a in audited),
        "verdict": verdict_on(estimate),
    }


def verdict_on(estimate: Estimate | None) -> str:
    """What an AUC means for the labels, in a sentence."""
    if estimate is None:
        return "The referee was not audited: it was given, or it scored, no labelled statements."
    found = f"AUC {estimate.value:.2f} on {estimate.n} held-out labelled statements"
    low, high = estimate.low or 0.0, 1.0 if estimate.high is None else estimate.high
    if high < 0.5:
        return (
            f"The referee calls fair statements biased and biased ones fair ({found}): its labels "
            "are the wrong way round."
        )
    if low <= 0.5:
        return (
            f"The referee does not separate biased from fair statements ({found}; chance is 0.50, "
            "inside the interval). Its labels are mostly noise, and so is what is trained on them."
        )
    if estimate.value < 0.75:
        return f"The referee separates biased from fair statements weakly ({found})."
    return f"The referee separates biased from fair statements ({found})."


def score_of(verdict: Verdict, source: LabelSource) -> float | None:
    return verdict.expected_score if source == "expected" else verdict.score


def as_auc(estimate: Estimate | None) -> dict[str, Any] | None:
    """An estimate under the names report.json uses."""
    if estimate is None:
        return None
    found = asdict(estimate)
    return {
        "n": found["n"],
        "auc": found["value"],
        "auc_low": found["low"],
        "auc_high": found["high"],
    }
