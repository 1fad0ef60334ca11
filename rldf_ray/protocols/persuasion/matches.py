"""Who debates whom: each debater against itself, every pair, or Swiss rounds; both assignments.

Swiss: debaters are seeded as the plan names them, strongest first, as in the paper's code. In each
round those of equal points meet: in the order of points, then seeds, each meets the next one that
it has not met. A match that is won gives a point, and one that nobody wins half a point to both; an
odd number leaves the last without a match, nobody twice, and a bye is half a point as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import product

from rldf_ray.protocols.persuasion.measures import Row, WinRate, win_rate
from rldf_ray.protocols.persuasion.readings import readings
from rldf_ray.protocols.persuasion.settings import PersuasionSettings

Pair = tuple[str, str]
HALF = 0.5


def matches(settings: PersuasionSettings) -> list[Pair]:
    """What is held at first: the debater of the correct side and that of the incorrect one."""
    names = list(settings.debaters)
    alone = [(name, name) for name in names]
    if settings.matches == "self":
        return alone
    if settings.matches == "round_robin":
        return list(product(names, names))
    return [*alone, *both_assignments(paired(names, {}, ()))]


def both_assignments(pairs: Iterable[Pair]) -> list[Pair]:
    """Each pair with either debater on the correct side."""
    return [one for a, b in pairs for one in ((a, b), (b, a))]


def most_matches(settings: PersuasionSettings) -> list[Pair]:
    """As many as are held at most, for an estimate.

    In a Swiss round a debater argues once for either answer, as it does against itself.
    """
    if settings.matches != "swiss":
        return matches(settings)
    return [(name, name) for name in settings.debaters] * (1 + most_rounds(settings))


def next_round(outcomes: Sequence[Row], settings: PersuasionSettings) -> list[Pair] | None:
    """The matches of the next Swiss round, in both assignments; None where there is none.

    Args:
        outcomes: the verdicts of all rounds so far.
    """
    if settings.matches != "swiss":
        return None
    names, rounds = list(settings.debaters), swiss_rounds(outcomes, settings)
    if len(rounds) >= most_rounds(settings):
        return None
    pairs = paired(names, points(rounds, names, outcomes), rounds)
    return both_assignments(pairs) or None


def most_rounds(settings: PersuasionSettings) -> int:
    """Rounds of a Swiss tournament: as many as the plan says, and as one winner takes."""
    return min(settings.swiss_rounds, math.ceil(math.log2(max(2, len(settings.debaters)))))


def swiss_rounds(outcomes: Sequence[Row], settings: PersuasionSettings) -> list[list[Pair]]:
    """The pairs of each round that was held, by the verdicts: rounds follow from one another."""
    held = {
        frozenset((row["correct_debater"], row["incorrect_debater"]))
        for row in outcomes
        if row["protocol"] == "debate"
    }
    names = list(settings.debaters)
    rounds: list[list[Pair]] = []
    while len(rounds) < most_rounds(settings):
        pairs = paired(names, points(rounds, names, outcomes), rounds)
        if not pairs or frozenset(pairs[0]) not in held:
            break
        rounds.append(pairs)
    return rounds


def points(
    rounds: Iterable[Sequence[Pair]], names: Sequence[str], outcomes: Sequence[Row]
) -> dict[str, float]:
    """What each debater has after the rounds; the verdicts of all judges count."""
    total = dict.fromkeys(names, 0.0)
    for pairs in rounds:
        for bye in set(names).difference(*pairs):
            total[bye] += HALF
        for one, other in pairs:
            rate = _rate(outcomes, one, other)
            won = HALF if rate is None or rate == HALF else float(rate > HALF)
            total[one] += won
            total[other] += 1 - won
    return total


def _rate(outcomes: Sequence[Row], one: str, other: str) -> float | None:
    """How often one beats the other: by probability over both positions, else by letter."""
    of = [
        row
        for row in outcomes
        if {row["correct_debater"], row["incorrect_debater"]} == {one, other}
    ]
    found = _mean(win_rate(readings(of), one, other))
    return _mean(win_rate(of, one, other)) if found is None else found


def _mean(rate: WinRate | None) -> float | None:
    return None if rate is None else rate.mean


def paired(
    names: Sequence[str], scores: Mapping[str, float], rounds: Sequence[Sequence[Pair]]
) -> list[Pair]:
    """The pairs of a round; nobody meets anybody twice. Empty where that cannot be.

    Args:
        names: by seed, strongest first.
        rounds: those that were played.
    """
    seed = {name: place for place, name in enumerate(names)}
    order = sorted(names, key=lambda name: (-scores.get(name, 0.0), seed[name]))
    met = {frozenset(pair) for pairs in rounds for pair in pairs}
    if len(order) % 2 == 0:
        return _pairs(order, met) or []
    rested = [
        name
        for pairs in rounds
        for name in names
        if name not in {n for pair in pairs for n in pair}
    ]
    for bye in reversed([name for name in order if name not in rested]):
        found = _pairs([name for name in order if name != bye], met)
        if found is not None:
            return found
    return []


def _pairs(order: Sequence[str], met: set[frozenset[str]]) -> list[Pair] | None:
    """Each with the next that it has not met, so that all have a match; None where none can."""
    if not order:
        return []
    first, *others = order
    for opponent in others:
        if frozenset((first, opponent)) not in met:
            rest = _pairs([name for name in others if name != opponent], met)
            if rest is not None:
                return [(first, opponent), *rest]
    return None
