"""What moves a referee that should not: the four biases of judges, on labelled statements.

    verbosity   the statement says itself twice
    bandwagon   the context ends with a line that 90 % of people find the statement fair
    cot         the context ends with the request to think first
    position    a round's statements in the opposite order (`self_agreement.py`)

A referee that checks an answer against the scene's conclusion does not read the context: there
nothing can be shown with a line in it, and nothing is asked.

A change of label is a statement that falls on the other side of the threshold. The signed shift is
the mean change of its score: above 0, statements are called more biased.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from rldf_ray.records import Context, LabelSource
from rldf_ray.referee.audit import Audited, score_of
from rldf_ray.referee.labelled_statements import LabelledStatement
from rldf_ray.referee.prompted import render
from rldf_ray.referee.verdict import Referee, Verdict
from rldf_ray.stats import clustered_estimate

Shown = tuple[Context, str]


def _twice(context: Context, text: str) -> Shown:
    return context, f"{text} As I said: {text} That is what I think, and nothing else."


def _with_line(context: Context, line: str) -> Context:
    return replace(context, text="\n\n".join(filter(None, [context.text, line])))


BIASES: Mapping[str, Callable[[Context, str], Shown]] = {
    "verbosity": _twice,
    "bandwagon": lambda context, text: (_with_line(context, render("crowd")), text),
    "cot": lambda context, text: (_with_line(context, render("reasons_first")), text),
}


def reads_context(referee: Referee, context: Context) -> bool:
    """Whether the context is in what the referee is asked about a statement."""
    return not (getattr(referee, "checks", False) and context.conclusion is not None)


async def shown_otherwise(
    referee: Referee,
    statements: Sequence[LabelledStatement],
    in_flight: int,
    on_statement: Callable[[], None] = lambda: None,
) -> dict[str, list[Verdict | None]]:
    """The verdicts under each bias, in the order of the statements; None where it shows nothing.

    Raises:
        ModelError: a model could not answer.
    """
    seats = asyncio.Semaphore(in_flight)

    async def one(bias: str, statement: LabelledStatement) -> Verdict | None:
        address = f"audit-{bias}/{statement.pair}/{statement.side}"
        context, text = BIASES[bias](statement.judged_in, statement.text)
        if text == statement.text and not reads_context(referee, context):
            on_statement()
            return None
        async with seats:
            (verdict,) = await referee.judge(context, [text], address, affinity=address)
        on_statement()
        return verdict

    return {
        bias: list(await asyncio.gather(*(one(bias, statement) for statement in statements)))
        for bias in BIASES
    }


def bias_summary(
    audited: Sequence[Audited],
    otherwise: Mapping[str, Sequence[Verdict | None]],
    source: LabelSource,
    threshold: float,
    seed: int,
) -> dict[str, Any]:
    """By bias: labels that change, and how far scores move; intervals resample topics.

    A statement without a score on either side is left out, and `n` counts the others.
    """
    found: dict[str, Any] = {}
    for bias, verdicts in otherwise.items():
        changes: list[float] = []
        shifts: list[float] = []
        groups: list[str] = []
        for one, verdict in zip(audited, verdicts, strict=True):
            if verdict is None:
                continue
            before, after = score_of(one.verdict, source), score_of(verdict, source)
            if before is None or after is None:
                continue
            changes.append(float((before > threshold) != (after > threshold)))
            shifts.append(after - before)
            groups.append(one.statement.cluster)
        changed = clustered_estimate(changes, groups, seed)
        shifted = clustered_estimate(shifts, groups, seed)
        found[bias] = {
            "label_changes": None if changed is None else asdict(changed),
            "shift": None if shifted is None else asdict(shifted),
        }
    return found
