"""The loop: solve, judge, and while the judge finds bias: search, rephrase, judge; then answer.

The paper, section 4. Roles see no more than they must: the judge never the answer, the rephraser
neither options nor label. What goes wrong is kept as it is; no verdict is made up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from rldf_ray.protocols.mabrf.agents import Agents
from rldf_ray.protocols.mabrf.evidence import Evidence
from rldf_ray.protocols.mabrf.items import MabrfItem
from rldf_ray.protocols.mabrf.verdict import Verdict

Stop = Literal["clean at once", "clean", "max passes", "no verdict", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One rewriting.

    Attributes:
        evidence: what was looked up for it; None without search.
        candidate: the steps as rewritten.
        verdict: on the candidate; None where it did not parse, and then it is not accepted.
    """

    number: int
    evidence: Evidence | None
    candidate: str
    verdict: Verdict | None
    accepted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Solved:
    """The first reasoning about an item, which all arms begin from.

    Attributes:
        answer: as the solver gave it; None where it is none of the options.
        verdict: on the steps; None where it did not parse.
    """

    steps: str
    answer: str | None
    verdict: Verdict | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """The best reasoning, and what led to it."""

    passes: Sequence[Pass]
    steps: str
    verdict: Verdict | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mitigated:
    """What the loop came to.

    Attributes:
        steps: the best reasoning.
        verdict: on it.
        answer: the terminator's.
    """

    passes: Sequence[Pass]
    steps: str
    verdict: Verdict | None
    answer: str | None
    stop: Stop


async def solve(agents: Agents) -> Solved:
    """Steps, answer, and the judge's verdict on the steps."""
    steps = await agents.steps()
    if not steps:
        return Solved(steps="", answer=None, verdict=None)
    answer = await agents.answer(steps)
    return Solved(steps=steps, answer=answer, verdict=await agents.judge(steps, "first"))


async def rewrite(
    agents: Agents, solved: Solved, arm: str, on_pass: Callable[[Pass], None] = lambda one: None
) -> Rewritten:
    """Rewrite until the judge finds no bias, or the passes are used up.

    A rewriting is taken where the judge finds it no more biased than the best so far, as in
    the paper's code; the paper takes every one.

    Args:
        arm: begins the addresses of what differs between arms. Where its agents have a search,
            evidence is looked up before each rewriting.
        on_pass: called with each rewriting as it is judged, for those who watch.
    """
    best, verdict = solved.steps, solved.verdict
    loop = agents.settings.loop
    passes: list[Pass] = []
    refused = ""
    while verdict is not None and verdict.bias > loop.threshold and len(passes) < loop.max_passes:
        number = len(passes) + 1
        place = f"{arm}/{number}"
        evidence = await agents.look_up(best, place) if agents.search is not None else None
        summary = evidence.summary if evidence is not None else ""
        candidate = await agents.rephrase(best, verdict.bias_reason, summary, refused, place)
        judged = await agents.judge(candidate, place) if candidate else None
        accepted = judged is not None and judged.bias <= verdict.bias
        passes.append(
            Pass(
                number=number,
                evidence=evidence,
                candidate=candidate,
                verdict=judged,
                accepted=accepted,
            )
        )
        on_pass(passes[-1])
        if judged is not None and accepted:
            best, verdict, refused = candidate, judged, ""
        else:
            refused = judged.bias_reason if judged is not None else ""
    return Rewritten(passes=passes, steps=best, verdict=verdict)


async def mitigate(
    agents: Agents, solved: Solved, arm: str, on_pass: Callable[[Pass], None] = lambda one: None
) -> Mitigated:
    """`rewrite`, and then answer by the best steps, also where no pass was needed."""
    if not solved.steps:
        return Mitigated(passes=(), steps="", verdict=None, answer=None, stop="failed")
    found = await rewrite(agents, solved, arm, on_pass)
    return Mitigated(
        passes=found.passes,
        steps=found.steps,
        verdict=found.verdict,
        answer=await agents.terminate(found.steps, arm),
        stop=_stop(found, agents.settings.loop.threshold),
    )


def changed(item: MabrfItem, before: str | None, after: str | None) -> bool | None:
    """Whether an option was taken in place of another; None of a free answer, or of none."""
    if not item.options or before is None or after is None:
        return None
    return before != after


def _stop(found: Rewritten, threshold: int) -> Stop:
    if found.verdict is None:
        return "no verdict"
    if found.verdict.bias > threshold:
        return "max passes"
    return "clean" if found.passes else "clean at once"
