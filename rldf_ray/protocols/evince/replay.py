"""A finished dialogue steered, stopped and decided again on paper, without a call.

What was said stays said: a replay shows what levels another controller would have asked for and
where other rules would have ended, not what would have been said at those levels.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rldf_ray.protocols.evince.arguments import Argument, ReasonScores
from rldf_ray.protocols.evince.crit import quality
from rldf_ray.protocols.evince.decision import Decision, decide
from rldf_ray.protocols.evince.records import Row, argument_of, scores_of
from rldf_ray.protocols.evince.scale import LabelScale
from rldf_ray.protocols.evince.settings import CritSection, Steering, Stopping
from rldf_ray.protocols.evince.steering import Status, first_level, next_level, stopped
from rldf_ray.protocols.evince.trace import Round, Side, Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What other rules make of a trace.

    Attributes:
        levels: of every round there is.
        rounds: after which it ends; all there are where it would have gone on.
        status: None where it would have gone on.
    """

    levels: tuple[float, ...]
    rounds: int
    status: Status | None


def replayed(trace: Trace, steering: Steering, stopping: Stopping, scale: LabelScale) -> Replay:
    """Levels and end of a trace under other rules."""
    levels = [first_level(steering)]
    held: list[Round] = []
    for one in trace:
        held.append(replace(one, level=levels[-1]))
        status = stopped(held, steering, stopping, scale)
        if status is not None:
            return Replay(levels=tuple(levels), rounds=len(held), status=status)
        levels.append(next_level(held, steering, stopping, scale))
    return Replay(levels=tuple(levels[: len(trace)]), rounds=len(trace), status=None)


def without(trace: Trace, rows: Iterable[Row], rejected: Collection[str]) -> list[Round]:
    """The trace with CRIT of every round computed again without the rejected arguments.

    Args:
        rows: the dialogue's arguments.
        rejected: their ids.
    """
    if not rejected:
        return list(trace)
    by_round: dict[int, dict[Side, list[Argument]]] = {}
    scores: dict[str, ReasonScores] = {}
    rated = False
    for row in rows:
        argument, scored = argument_of(row), scores_of(row)
        rated = rated or scored is not None
        if scored is None or argument.argument_id in rejected:
            continue
        by_round.setdefault(argument.round, {"A": [], "B": []})[argument.side].append(argument)
        scores[argument.argument_id] = scored
    if not rated:
        # A rubric rates whole turns: nothing is known of single arguments.
        return list(trace)
    return [
        _rated_again(one, by_round.get(number, {"A": [], "B": []}), scores)
        for number, one in enumerate(trace, start=1)
    ]


def _rated_again(
    one: Round, made: Mapping[Side, Sequence[Argument]], scores: Mapping[str, ReasonScores]
) -> Round:
    if one.crit_a is None:
        return one
    again = quality(dict(made), dict(scores))
    return replace(one, crit_a=again["A"], crit_b=again["B"])


def decided_again(
    trace: Trace,
    rows: Iterable[Row],
    rejected: Collection[str],
    status: Status,
    given: Mapping[str, str],
    crit: CritSection,
    scale: LabelScale,
) -> Decision:
    """The decision of a dialogue without the rejected arguments."""
    every = list(rows)
    last = max((row["round"] for row in every), default=0)
    flagged = any(
        row["flags"] and row["argument_id"] not in rejected and row["round"] == last
        for row in every
    )
    return decide(without(trace, every, rejected), status, given, crit, scale, flagged)
