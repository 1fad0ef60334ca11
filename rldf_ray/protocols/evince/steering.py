"""How contentious the next round is, and whether there is one: functions of what was recorded.

The paper, sections 3.2.2 and 3.2.3; it gives few numbers, and the others are choices. Nothing here
makes a call, so that a finished study can be steered and stopped again on paper (`replay.py`).
"""

from __future__ import annotations

import math
from typing import Literal

from rldf_ray.protocols.evince.metrics import SMOOTHING, l2
from rldf_ray.protocols.evince.scale import LabelScale
from rldf_ray.protocols.evince.settings import Steering, Stopping
from rldf_ray.protocols.evince.trace import Round, Trace

Status = Literal["agreed", "converged", "no progress", "max rounds"]
Phase = Literal["explore", "integrate", "consensus"]

PLATEAU_WD = 0.02
"""Of the scale's width: a smaller change of WD is none."""
PLATEAU_BITS = 0.005
"""A smaller change of JSD or KL is none."""
STALE_STEP = 0.2
REPEATED = 0.85
"""From which on a side repeats itself, where `stop.repeated` is switched off."""
DECAY = 1.2
AGREED_WD = 1e-6


def phase_of(level: float) -> Phase:
    """The part of a dialogue that a level belongs to."""
    if level > 0.7:
        return "explore"
    return "integrate" if level > 0.3 else "consensus"


def first_level(steering: Steering) -> float:
    """The level of round 1."""
    level = steering.levels[0] if steering.controller == "schedule" else steering.start
    return _clipped(level, steering)


def next_level(trace: Trace, steering: Steering, stopping: Stopping, scale: LabelScale) -> float:
    """The level of the round after `trace` (section 3.2.2)."""
    last = trace[-1]
    level = _controlled(trace, steering, scale)
    # The schedule's levels are given, whatever is measured.
    if steering.controller != "schedule":
        if _still(trace, scale):
            level = min(level, 0.3)
        if _stale(last, REPEATED if stopping.repeated is None else stopping.repeated):
            level = min(level, last.level - STALE_STEP)
    if not steering.may_rise:
        level = min(level, last.level)
    return _clipped(level, steering)


def _controlled(trace: Trace, steering: Steering, scale: LabelScale) -> float:
    last = trace[-1]
    if steering.controller == "schedule":
        return steering.levels[min(len(trace), len(steering.levels) - 1)]
    if steering.controller == "decay":
        return last.level / DECAY
    now = (last.metrics.kl, last.metrics.jsd, last.metrics.wd)
    if steering.controller == "printed":
        number = len(scale.labels)
        most = (math.log2(number / SMOOTHING), 1.0, scale.width)
        return sum(w * x / m for w, x, m in zip(steering.weights, now, most, strict=True))
    largest = [max(getattr(r.metrics, name) for r in trace) for name in ("kl", "jsd", "wd")]
    shares = [x / m if m > 0 else 0.0 for x, m in zip(now, largest, strict=True)]
    weighted = sum(w * s for w, s in zip(steering.weights, shares, strict=True))
    return steering.start * weighted / sum(steering.weights)


def _clipped(level: float, steering: Steering) -> float:
    return min(max(level, steering.lowest), steering.highest)


def _still(trace: Trace, scale: LabelScale, kl_too: bool = False) -> bool:
    """Whether the divergences stand where they stood a round before."""
    if len(trace) < 2:
        return False
    now, before = trace[-1].metrics, trace[-2].metrics
    return (
        abs(now.wd - before.wd) < PLATEAU_WD * scale.width
        and abs(now.jsd - before.jsd) < PLATEAU_BITS
        and (not kl_too or abs(now.kl - before.kl) < PLATEAU_BITS)
    )


def _stale(last: Round, threshold: float | None) -> bool:
    """Whether both sides repeat themselves."""
    if threshold is None or last.repeated_a is None or last.repeated_b is None:
        return False
    return min(last.repeated_a, last.repeated_b) > threshold


def conditions(trace: Trace, stopping: Stopping) -> dict[str, bool]:
    """Which conditions of convergence the last round meets; those switched off are not there."""
    last, before = trace[-1], trace[-2] if len(trace) > 1 else None
    met: dict[str, bool] = {}
    if stopping.wd is not None:
        met["wd"] = last.metrics.wd_share < stopping.wd
    if stopping.jsd is not None:
        met["jsd"] = last.metrics.jsd < stopping.jsd
    if stopping.ce is not None:
        met["ce"] = before is not None and abs(last.metrics.ce - before.metrics.ce) < stopping.ce
    if stopping.moved is not None:
        met["moved"] = before is not None and moved(before, last) < stopping.moved
    if stopping.repeated is not None:
        met["repeated"] = _stale(last, stopping.repeated)
    if stopping.crit is not None:
        met["crit"] = _sound(last, stopping.crit)
    if stopping.nmi is not None:
        met["nmi"] = last.metrics.nmi > stopping.nmi
    return met


def moved(before: Round, last: Round) -> float:
    """The farthest that a side's distribution went in a round, Euclidean."""
    pairs = [*zip(before.a, last.a, strict=True), *zip(before.b, last.b, strict=True)]
    return max(l2(one, other) for one, other in pairs)


def _sound(last: Round, threshold: float) -> bool:
    scores = (last.crit_a, last.crit_b)
    return all(score is not None and score >= threshold for score in scores)


def stopped(
    trace: Trace, steering: Steering, stopping: Stopping, scale: LabelScale
) -> Status | None:
    """Why the dialogue ends with its last round; None where another follows (section 3.2.3)."""
    last = trace[-1]
    sound = stopping.crit is None or _sound(last, stopping.crit)
    if stopping.agreed and last.metrics.wd < AGREED_WD and sound:
        return "agreed"
    if _converged(trace, stopping):
        return "converged"
    if stopping.no_progress and _stuck(trace, steering, scale):
        return "no progress"
    return "max rounds" if len(trace) >= stopping.max_rounds else None


def _converged(trace: Trace, stopping: Stopping) -> bool:
    """Whether all conditions hold, and held in as many rounds before as are required."""
    if len(trace) < stopping.rounds_running:
        return False
    ends = range(len(trace) - stopping.rounds_running + 1, len(trace) + 1)
    met = [conditions(trace[:end], stopping) for end in ends]
    return bool(met[-1]) and all(all(one.values()) for one in met)


def _stuck(trace: Trace, steering: Steering, scale: LabelScale) -> bool:
    """Whether nothing moved in two rounds at the lowest level."""
    lowest = all(r.level <= steering.lowest + 1e-9 for r in trace[-2:])
    still = len(trace) > 2 and _still(trace, scale, True) and _still(trace[:-1], scale, True)
    return lowest and still
