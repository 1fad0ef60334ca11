"""What a study of persuasion reports: the bounds first, then what debate does between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import pyarrow as pa

from rldf_ray.figures.estimates import shown, signed
from rldf_ray.protocols.item_sets import left_out_of
from rldf_ray.protocols.persuasion import tables as t
from rldf_ray.protocols.persuasion.elo import Node, least_squares
from rldf_ray.protocols.persuasion.figures import (
    accuracy_figure,
    course_figure,
    persuasiveness_figure,
    quotes_figure,
)
from rldf_ray.protocols.persuasion.measures import Row, accuracy, mean_correct, whole, win_rate
from rldf_ray.protocols.persuasion.readings import one_letter
from rldf_ray.protocols.persuasion.results import Results
from rldf_ray.protocols.persuasion.settings import PersuasionSettings
from rldf_ray.protocols.persuasion.tournament import (
    elo_table,
    slopes,
    slopes_table,
    swiss_table,
    win_table,
)
from rldf_ray.protocols.persuasion.transcript import PersuasionItem
from rldf_ray.protocols.study import Summary
from rldf_ray.stats import LEAST_CLUSTERS, Estimate, clustered_estimate


def summary(
    items: Sequence[PersuasionItem],
    tables: Mapping[str, pa.Table],
    settings: PersuasionSettings,
    seed: int,
) -> Summary:
    """Accuracy, stereotypes, Elo, win rates, quotes; for what the study has of them."""
    results = Results(
        items={item.item_id: item for item in items},
        tables=tables,
        settings=settings,
        seed=seed,
        left_out=left_out_of(items),
    )
    made = [
        t.accuracy_table(results),
        t.stereotype_table(results),
        elo_table(results),
        slopes_table(results),
        win_table(results),
        swiss_table(results),
        t.quotes_table(results),
        t.left_out_table(results),
    ]
    drawn = [
        accuracy_figure(results),
        *(persuasiveness_figure(results, how) for how in results.rows),
        course_figure(results),
        quotes_figure(results),
    ]
    return Summary(
        tables=[table for table in made if table is not None and table.rows],
        figures=[figure for figure in drawn if figure is not None],
        facts=_facts(results),
        notes=_notes(results),
    )


def _facts(results: Results) -> dict[str, Any]:
    return {
        "left_out": dict(results.left_out),
        "accuracy": [
            {**asdict(system), **asdict(accuracy(rows, results.groups, results.seed))}
            for system, rows in results.systems.items()
        ],
        "elo_least_squares": {
            judge: {name: rating for (name,), rating in _checked(results, judge).items()}
            for judge in results.settings.judges
        },
        "slopes": [asdict(one) for one in slopes(results)],
    }


def _checked(results: Results, judge: str) -> dict[tuple[str, ...], float]:
    """The paper's own fit, of observed win rates by letter."""
    names, rows = list(results.settings.debaters), results.judged_by(judge, "letter")
    rates: dict[tuple[Node, Node], float] = {}
    for one, other in combinations(names, 2):
        found = win_rate(rows, one, other)
        if found is not None:
            rates[(one,), (other,)] = found.mean
    return least_squares(rates) if rates else {}


def _notes(results: Results) -> list[str]:
    """What a reader has to know before any other figure."""
    notes = []
    stories = len(set(results.groups.values()))
    notes.append(f"{len(results.items)} questions about {stories} stories.")
    if results.left_out:
        counted = "; ".join(f"{number} as {reason}" for reason, number in results.left_out.items())
        notes.append(f"Left out: {counted}.")
    for judge in results.settings.judges:
        notes += _of_judge(results, judge)
    if results.people:
        raters = len({row["rater"] for row in results.people})
        found = mean_correct(results.people, results.groups, results.seed)
        notes.append(
            f"people: accuracy {shown(found)} of {len(results.people)} verdicts by {raters}."
        )
    rater = results.settings.rater
    if results.settings.selects and rater in results.settings.judges:
        notes.append(
            f"Candidates are chosen by {rater}, who judges as well: what is chosen pleases that "
            "judge by construction. Name another `preference`, or read another judge of the same "
            "transcripts."
        )
    failed = sum(row["failure"] is not None for row in results.outcomes)
    if failed:
        notes.append(f"{failed} verdicts are missing as a debate has no argument in some round.")
    return notes


def _of_judge(results: Results, judge: str) -> list[str]:
    """A judge's bounds, what its letters follow, and what persuasion does to it."""
    naive, expert = (
        accuracy(results.bound(judge, protocol, "letter"), results.groups, results.seed)
        for protocol in t.BOUNDS
    )
    text = (
        f"{judge}: accuracy by letter {shown(naive.accuracy)} without the story, "
        f"{shown(expert.accuracy)} with it"
    )
    likelier = (naive.accuracy_by_probability, expert.accuracy_by_probability)
    if any(likelier):
        text += f"; by probability {' and '.join(map(shown, likelier))}"
    without, with_story = (results.bound(judge, protocol, "letter") for protocol in t.BOUNDS)
    apart = _apart(without, with_story, results)
    if apart is not None and apart.sign <= 0:
        text += "; by its letter that the story helps it is not shown"
    return [f"{text}.", *_positions(results, judge), *_against_naive(results, judge)]


def _positions(results: Results, judge: str) -> list[str]:
    """How often a judge says the same in both positions, and where its letter is a position."""
    mine = [row for row in results.rows["probability"] if row["judge"] == judge]
    same = [float(row["same"]) for row in mine if row["same"] is not None]
    if not same:
        return []
    notes = [
        f"{judge}: judged alike in both positions {sum(same) / len(same):.0%} of {len(same)} times."
    ]
    letters = {
        system: most
        for system, rows in results.read["probability"].items()
        if system.judge == judge and (most := one_letter(rows)) is not None
    }
    known = any(row["p_correct"] is not None for row in mine)
    instead = "read its accuracy by probability" if known else "its accuracy says nothing"
    for letter in ("A", "B"):
        shares = {s: share for s, (one, share) in letters.items() if one == letter and share > 0.5}
        if not shares:
            continue
        where = "; ".join(f"{system.title} {share:.0%}" for system, share in shares.items())
        if len(shares) == len(letters):
            where = f"in all it judges, {min(shares.values()):.0%} or more"
        notes.append(
            f"{judge} names {letter} in both positions most of the time ({where}), whichever "
            f"answer stands there: its letter is a position and no answer, so {instead}."
        )
    return notes


def _against_naive(results: Results, judge: str) -> list[str]:
    lines = []
    for system in results.systems:
        if system.judge != judge or system.protocol in t.BOUNDS:
            continue
        parts = []
        for how, systems in results.read.items():
            naive = results.bound(judge, "naive", how)
            found = _apart(naive, systems.get(system, ()), results)
            if found is not None:
                tail = "" if found.sign else ", no difference shown"
                parts.append(f"{signed(found.estimate)} by {how}{tail}")
        if parts:
            lines.append(f"{judge}, {system.title} less naive: {'; '.join(parts)}.")
    return lines


@dataclass(frozen=True)
class _Apart:
    """A difference of accuracies, and of how many stories it is."""

    estimate: Estimate
    stories: int

    @property
    def sign(self) -> int:
        """1 of a difference that is shown to be above 0, -1 below, else 0.

        Where every question of enough stories has the same difference there is no interval, and
        no doubt.
        """
        found = self.estimate
        if found.low is None or found.high is None:
            enough = self.stories >= LEAST_CLUSTERS
            return (found.value > 0) - (found.value < 0) if enough else 0
        return (found.low > 0) - (found.high < 0)


def _apart(before: Sequence[Row], after: Sequence[Row], results: Results) -> _Apart | None:
    """Mean accuracy of the questions that both have, the second less the first, by question."""
    one, other = _by_question(before), _by_question(after)
    shared = [item for item in one if item in other]
    stories = [results.groups[item] for item in shared]
    found = clustered_estimate([other[item] - one[item] for item in shared], stories, results.seed)
    return None if found is None else _Apart(found, len(set(stories)))


def _by_question(rows: Sequence[Row]) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for row in whole(rows):
        values.setdefault(row["item_id"], []).append(float(row["correct"]))
    return {item: sum(several) / len(several) for item, several in values.items()}
