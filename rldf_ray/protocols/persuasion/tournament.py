"""What a tournament shows: ratings, what accuracy does as ratings rise, win rates, standings.

A slope is of a figure of each debater on its aggregate rating, by least
squares, for 100 points of Elo; its interval resamples stories and rates all debaters anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from rldf_ray.figures.estimates import shown, signed
from rldf_ray.protocols.persuasion.elo import MEAN, Fit, Node
from rldf_ray.protocols.persuasion.matches import points, swiss_rounds
from rldf_ray.protocols.persuasion.measures import whole, win_estimates
from rldf_ray.protocols.persuasion.results import Results, Tournament
from rldf_ray.protocols.study import StudyTable
from rldf_ray.stats import Estimate, interval

ELO = (
    "Bradley-Terry by maximum likelihood, mean {mean:.0f}; advantage is the correct side's rating "
    "less the incorrect side's. Debates of a debater with itself count for sides alone. Who is "
    "linked to nobody by matches has no rating."
)
SLOPES = (
    "Change for 100 points of a debater's aggregate Elo, by least squares over debaters; intervals "
    "resample stories. Advantage: the correct side's Elo less the incorrect side's. Accuracy: the "
    "judge's, of debates of a debater with itself."
)
WINS = (
    "Over questions and positions; the mean is over both sides. By probability both positions of a "
    "debate are one."
)
SWISS = (
    "A match is won by a mean win rate above 1/2 over all judges, positions and both assignments, "
    "by probability where it is known, else by letter; half a point is of a match that nobody won, "
    "and of a round without an opponent."
)


def elo_table(results: Results) -> StudyTable | None:
    """Ratings of debaters: aggregate, for the correct side, for the incorrect one."""
    rows = []
    for (judge, how), tournament in results.tournaments.items():
        every, sides = tournament.every.ratings(), tournament.sides.ratings()
        for name in results.settings.debaters:
            correct, incorrect = (sides.get((name, side)) for side in ("correct", "incorrect"))
            if correct is None and (name,) not in every:
                continue
            advantage = "–"
            if correct is not None and incorrect is not None:
                advantage = f"{correct.value - incorrect.value:+.0f}"
            of = (every.get((name,)), correct, incorrect)
            rows.append([judge, how, name, *map(_rating, of), advantage])
    if not rows:
        return None
    sides_of = ["aggregate", "correct side", "incorrect side", "advantage"]
    return StudyTable(
        name="elo",
        title="Elo of the debaters",
        columns=["judge", "read by", "debater", *sides_of],
        rows=rows,
        notes=[ELO.format(mean=MEAN)],
    )


def _rating(estimate: Estimate | None) -> str:
    if estimate is None:
        return "–"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.0f}"
    return f"{estimate.value:.0f} ({estimate.low:.0f} to {estimate.high:.0f})"


@dataclass(frozen=True, kw_only=True)
class Slopes:
    """What rises with the debaters' Elo before one judge.

    Attributes:
        debaters: that have all ratings.
        advantage: Elo of the correct side less the incorrect one, for 100 points.
        accuracy: of debates of a debater with itself, for 100 points.
    """

    judge: str
    how: str
    debaters: int
    advantage: Estimate | None
    accuracy: Estimate | None


def slopes(results: Results) -> list[Slopes]:
    """The slopes before each judge, by letter and by probability."""
    return [
        _slopes(results, judge, how, tournament)
        for (judge, how), tournament in results.tournaments.items()
    ]


def _slopes(results: Results, judge: str, how: str, tournament: Tournament) -> Slopes:
    every, sides = tournament.every, tournament.sides
    names = rated(results.settings.debaters, tournament)
    rating = _columns(every, [(name,) for name in names])
    correct, incorrect = (
        _columns(sides, [(name, side) for name in names]) for side in ("correct", "incorrect")
    )
    right = _alone(results, judge, how, names)
    return Slopes(
        judge=judge,
        how=how,
        debaters=len(names),
        advantage=_slope(rating, correct - incorrect),
        accuracy=_slope(rating, right),
    )


def rated(debaters: Iterable[str], tournament: Tournament) -> list[str]:
    """The debaters that have an aggregate rating and one for each side."""
    every, sides = set(tournament.every.nodes), set(tournament.sides.nodes)
    return [
        name
        for name in debaters
        if (name,) in every and {(name, "correct"), (name, "incorrect")} <= sides
    ]


def _columns(fit: Fit, nodes: Sequence[Node]) -> NDArray[np.float64]:
    """Ratings of some nodes, and below them those of the resamples, [1 + resamples, nodes]."""
    places = [fit.nodes.index(node) for node in nodes]
    ratings: NDArray[np.float64] = np.vstack([fit.elo[None, :], fit.resampled])[:, places]
    return ratings


def _alone(results: Results, judge: str, how: str, names: Sequence[str]) -> NDArray[np.float64]:
    """The judge's accuracy by debater, of its debates with itself, [1 + resamples, debaters].

    Not a number where a resample holds none.
    """
    place = {story: number for number, story in enumerate(results.stories)}
    table = np.zeros((len(place), len(names), 2))
    debates = [row for row in results.judged_by(judge, how) if row["protocol"] == "debate"]
    for number, name in enumerate(names):
        both = [r for r in debates if r["correct_debater"] == r["incorrect_debater"] == name]
        for row in whole(both):
            story = place[results.groups[row["item_id"]]]
            table[story, number] += (float(row["correct"]), 1.0)
    sums = np.vstack([table.sum(0)[None], *(table[row].sum(0)[None] for row in results.drawn)])
    with np.errstate(divide="ignore", invalid="ignore"):
        shares: NDArray[np.float64] = sums[..., 0] / sums[..., 1]
    return shares


def _slope(x: NDArray[np.float64], y: NDArray[np.float64]) -> Estimate | None:
    """Least squares for 100 points of x, by rows; None where it cannot be had.

    Resamples in which it cannot be had are left out of the interval.
    """
    if x.shape[1] < 2:
        return None
    away = x - x.mean(1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = 100 * (away * y).sum(1) / (away**2).sum(1)
    if not np.isfinite(found[0]):
        return None
    again = found[1:][np.isfinite(found[1:])]
    low, high = (float(end) for end in interval(again)) if len(again) else (None, None)
    return Estimate(float(found[0]), low, high, x.shape[1])


def slopes_table(results: Results) -> StudyTable | None:
    """What rises with the debaters' Elo."""
    rows = [
        [one.judge, one.how, str(one.debaters), _points(one.advantage), signed(one.accuracy)]
        for one in slopes(results)
    ]
    if not rows:
        return None
    return StudyTable(
        name="slopes",
        title="What more persuasive debaters do to truth",
        columns=["judge", "read by", "debaters", "advantage", "accuracy"],
        rows=rows,
        notes=[SLOPES],
    )


def _points(estimate: Estimate | None) -> str:
    if estimate is None:
        return "–"
    ends = "" if estimate.low is None else f" ({estimate.low:+.0f} to {estimate.high:+.0f})"
    return f"{estimate.value:+.0f}{ends}"


def win_table(results: Results) -> StudyTable | None:
    """Win rates of every pair, over sides and positions."""
    rows = []
    for judge in results.judges:
        for how in results.rows:
            played = results.judged_by(judge, how)
            for one, other in combinations(results.settings.debaters, 2):
                found = win_estimates(played, one, other, results.groups, results.seed)
                if found is not None:
                    rows.append([judge, how, one, other, *map(shown, found)])
    if not rows:
        return None
    return StudyTable(
        name="wins",
        title="Win rates",
        columns=["judge", "read by", "of", "against", "correct side", "incorrect side", "mean"],
        rows=rows,
        notes=[WINS],
    )


def swiss_table(results: Results) -> StudyTable | None:
    """Points of a Swiss tournament, and whom each debater met."""
    settings, outcomes = results.settings, results.outcomes
    if settings.matches != "swiss":
        return None
    names, rounds = list(settings.debaters), swiss_rounds(outcomes, settings)
    total = points(rounds, names, outcomes)
    rows = [
        [name, f"{total[name]:g}", *(_opponent(name, pairs) for pairs in rounds)]
        for name in sorted(names, key=lambda name: -total[name])
    ]
    return StudyTable(
        name="swiss",
        title="The Swiss tournament",
        columns=["debater", "points", *(f"round {n}" for n in range(1, len(rounds) + 1))],
        rows=rows,
        notes=[SWISS],
    )


def _opponent(name: str, pairs: Sequence[tuple[str, str]]) -> str:
    met = (b if a == name else a for a, b in pairs if name in (a, b))
    return next(met, "–")
