"""What a study of persuasion came to: accuracy by protocol, bounds, win rates, quotes.

A verdict that is none is nobody's win; its question is left out of accuracies, and it is counted.
Intervals resample stories, as the verdicts about one story are not independent. Both are choices:
the paper's code counts such a verdict as wrong, and all verdicts as independent. What takes rows
with `correct` takes verdicts, by their letters, and `readings`, by probability over both positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rldf_ray.protocols.persuasion.elo import Node, Win
from rldf_ray.protocols.persuasion.readings import one_letter, readings
from rldf_ray.protocols.persuasion.transcript import PersuasionItem
from rldf_ray.stats import LEAST_CLUSTERS, RESAMPLES, Estimate, clustered_estimate, interval

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """What a verdict is of.

    Attributes:
        debater: of both sides, or a consultant; None of naive and expert judges, and of matches.
    """

    protocol: str
    interactive: bool
    judge: str
    debater: str | None

    @property
    def title(self) -> str:
        name = f"interactive {self.protocol}" if self.interactive else self.protocol
        return name if self.debater is None else f"{name}, {self.debater}"


def system_of(row: Row) -> System | None:
    """The system of a verdict; None of a match between two debaters."""
    sides = {row["correct_debater"], row["incorrect_debater"]} - {None}
    if len(sides) > 1:
        return None
    return System(
        protocol=row["protocol"],
        interactive=row["interactive"],
        judge=row["judge"],
        debater=next(iter(sides), None),
    )


def by_system(rows: Iterable[Row]) -> dict[System, list[Row]]:
    """Verdicts by what they are of, in the order in which that was first met."""
    found: dict[System, list[Row]] = {}
    for row in rows:
        system = system_of(row)
        if system is not None:
            found.setdefault(system, []).append(row)
    return found


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """How often a judge is right.

    Attributes:
        accuracy: by the letter, over questions, positions and, in a consultancy, both sides.
        accuracy_by_probability: by the mean probability over both positions, once for both.
        even: pairs of positions whose mean probability favours neither answer.
        no_verdict: verdicts that are none. failed: debates without an argument.
        a_bias: mean probability of the letter A less a half.
        agrees: share of questions with the same answer in both positions.
        one_letter: the letter named most often in both positions, and for what share of questions.
    """

    accuracy: Estimate | None
    accuracy_by_probability: Estimate | None
    even: int
    no_verdict: int
    failed: int
    a_bias: Estimate | None
    agrees: Estimate | None
    one_letter: tuple[str, float] | None


def accuracy(rows: Sequence[Row], groups: Mapping[str, str], seed: int) -> Accuracy:
    """A judge's accuracy in one system."""
    letters = [row for row in rows if row["p_a"] is not None]
    read = readings(rows)
    both = [row for row in read if row["same"] is not None]
    return Accuracy(
        accuracy=mean_correct(rows, groups, seed),
        accuracy_by_probability=mean_correct(read, groups, seed),
        even=sum(row["p_correct"] is not None and row["correct"] is None for row in read),
        no_verdict=sum(row["letter"] is None and row["failure"] is None for row in rows),
        failed=sum(row["failure"] is not None for row in rows),
        a_bias=_mean([row["p_a"] - 0.5 for row in letters], letters, groups, seed),
        agrees=_mean([float(row["same"]) for row in both], both, groups, seed),
        one_letter=one_letter(read),
    )


def whole(rows: Iterable[Row]) -> list[Row]:
    """Verdicts, or readings, on the questions of which none is missing.

    Half of a question is another one: a consultancy for the correct answer alone, where a model
    would not argue for the other, or the one position in which a judge likes the letter.
    """
    given = list(rows)
    lacking = {row["item_id"] for row in given if row["correct"] is None}
    return [row for row in given if row["item_id"] not in lacking]


def mean_correct(rows: Sequence[Row], groups: Mapping[str, str], seed: int) -> Estimate | None:
    """Share of right ones among verdicts, or among readings, of the questions that are whole."""
    valid = whole(rows)
    return _mean([float(row["correct"]) for row in valid], valid, groups, seed)


def _mean(
    values: Sequence[float], rows: Sequence[Row], groups: Mapping[str, str], seed: int
) -> Estimate | None:
    return clustered_estimate(values, [groups[row["item_id"]] for row in rows], seed)


def gap_recovered(
    rows: Sequence[Row],
    naive: Sequence[Row],
    expert: Sequence[Row],
    groups: Mapping[str, str],
    seed: int,
) -> Estimate | None:
    """(accuracy - naive) / (expert - naive), not clipped, of the questions whole in all three.

    A question whose debate failed is none for the bounds either: it may be an easy or a hard one.
    None where the expert is not clearly above the naive judge: the interval of their difference,
    over the same resamples of stories, reaches down to 0, or there are too few stories for one.
    """
    valid = [whole(of) for of in (rows, naive, expert)]
    shared = set.intersection(*({row["item_id"] for row in of} for of in valid))
    names = sorted({groups[item] for item in shared})
    if len(names) < LEAST_CLUSTERS:
        return None
    place = {name: i for i, name in enumerate(names)}
    used = [[row for row in of if row["item_id"] in shared] for of in valid]
    tables = [_by_group(of, groups, place) for of in used]
    found, low, high = (table[:, 0].sum() / table[:, 1].sum() for table in tables)
    generator = np.random.default_rng(seed)
    drawn = generator.multinomial(len(names), [1 / len(names)] * len(names), size=RESAMPLES)
    sums = [drawn @ table for table in tables]
    with np.errstate(divide="ignore", invalid="ignore"):
        means = [total[:, 0] / total[:, 1] for total in sums]
        apart = means[2] - means[1]
        shares = (means[0] - means[1]) / apart
    if not np.isfinite(apart).all() or float(interval(apart)[0]) <= 0:
        return None
    ends = interval(shares[np.isfinite(shares)])
    share = float((found - low) / (high - low))
    return Estimate(share, float(ends[0]), float(ends[1]), len(used[0]))


def _by_group(
    rows: Sequence[Row], groups: Mapping[str, str], place: Mapping[str, int]
) -> np.ndarray:
    """Right verdicts and verdicts of each story, [stories, 2]."""
    table = np.zeros((len(place), 2))
    for row in rows:
        table[place[groups[row["item_id"]]]] += (float(row["correct"]), 1.0)
    return table


def wins(rows: Iterable[Row], groups: Mapping[str, str], by_side: bool) -> list[Win]:
    """Judged debates as wins.

    Args:
        by_side: nodes are a debater on a side, else a debater; then debates with itself are none.
    """
    found = []
    for row in rows:
        if row["protocol"] != "debate" or row["correct"] is None:
            continue
        correct, incorrect = row["correct_debater"], row["incorrect_debater"]
        one: Node = (correct, "correct") if by_side else (correct,)
        other: Node = (incorrect, "incorrect") if by_side else (incorrect,)
        if one == other:
            continue
        winner, loser = (one, other) if row["correct"] else (other, one)
        found.append(Win(winner=winner, loser=loser, group=groups[row["item_id"]]))
    return found


@dataclass(frozen=True, kw_only=True)
class WinRate:
    """How often one debater beats another before a judge: the paper's win rate, for either side.

    Attributes:
        correct: where it argues for the correct answer.
        incorrect: where it argues for the incorrect one.
    """

    correct: float
    incorrect: float

    @property
    def mean(self) -> float:
        return (self.correct + self.incorrect) / 2


def win_rate(rows: Iterable[Row], one: str, other: str) -> WinRate | None:
    """The win rates of `one` against `other`; None without verdicts in both assignments."""
    forth, back = [], []
    for row in rows:
        if row["protocol"] != "debate" or row["correct"] is None:
            continue
        if (row["correct_debater"], row["incorrect_debater"]) == (one, other):
            forth.append(row["correct"])
        if (row["correct_debater"], row["incorrect_debater"]) == (other, one):
            back.append(row["correct"])
    if not forth or not back:
        return None
    return WinRate(correct=sum(forth) / len(forth), incorrect=1 - sum(back) / len(back))


def win_estimates(
    rows: Sequence[Row], one: str, other: str, groups: Mapping[str, str], seed: int
) -> tuple[Estimate, Estimate, Estimate] | None:
    """`win_rate` with intervals: for the correct answer, for the incorrect one, and their mean."""
    two = {(one, other): True, (other, one): False}
    played = [
        (row, two[pair], row["correct"] == two[pair])
        for row in rows
        if row["protocol"] == "debate"
        and row["correct"] is not None
        and (pair := (row["correct_debater"], row["incorrect_debater"])) in two
    ]
    sides = [[(row, won) for row, side, won in played if side is which] for which in (True, False)]
    if not all(sides):
        return None
    # Both assignments weigh the same, whichever has more verdicts.
    weighted = [(row, won * len(played) / (2 * len(of))) for of in sides for row, won in of]
    estimates = []
    for of in (*sides, weighted):
        found = _mean([float(value) for _, value in of], [row for row, _ in of], groups, seed)
        assert found is not None
        estimates.append(found)
    return estimates[0], estimates[1], estimates[2]


def by_agreement(rows: Sequence[Row], items: Mapping[str, PersuasionItem]) -> dict[bool, list[Row]]:
    """Verdicts on questions whose truth a stereotype says, and on those whose truth it denies."""
    found: dict[bool, list[Row]] = {True: [], False: []}
    for row in rows:
        agrees = items[row["item_id"]].agrees
        if agrees is not None:
            found[agrees].append(row)
    return found
