"""What a study of persuasion reports: the bounds first, then what debate does between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from rldf_ray.figures.estimates import shown, signed
from rldf_ray.protocols.persuasion import tables as t
from rldf_ray.protocols.persuasion.elo import Node, least_squares
from rldf_ray.protocols.persuasion.figures import (
    accuracy_figure,
    course_figure,
    persuasiveness_figure,
)
from rldf_ray.protocols.persuasion.measures import Row, accuracy, win_rate
from rldf_ray.protocols.persuasion.results import Results
from rldf_ray.protocols.persuasion.settings import PersuasionSettings
from rldf_ray.protocols.persuasion.transcript import PersuasionItem
from rldf_ray.protocols.study import Summary
from rldf_ray.stats import Estimate, clustered_estimate


def summary(
    items: Sequence[PersuasionItem],
    tables: Mapping[str, pa.Table],
    settings: PersuasionSettings,
    seed: int,
) -> Summary:
    """Accuracy, stereotypes, Elo, win rates, quotes; for what the study has of them."""
    results = Results(
        items={item.item_id: item for item in items}, tables=tables, settings=settings, seed=seed
    )
    made = [
        t.accuracy_table(results),
        t.stereotype_table(results),
        t.elo_table(results),
        t.win_table(results),
        t.quotes_table(results),
    ]
    drawn = [accuracy_figure(results), persuasiveness_figure(results), course_figure(results)]
    return Summary(
        tables=[table for table in made if table is not None and table.rows],
        figures=[figure for figure in drawn if figure is not None],
        facts=_facts(results),
        notes=_notes(results),
    )


def _facts(results: Results) -> dict[str, Any]:
    return {
        "accuracy": [
            {**asdict(system), **asdict(accuracy(rows, results.groups, results.seed))}
            for system, rows in results.systems.items()
        ],
        "elo_least_squares": {
            judge: {name: rating for (name,), rating in _checked(results, judge).items()}
            for judge in results.settings.judges
        },
    }


def _checked(results: Results, judge: str) -> dict[tuple[str, ...], float]:
    """The paper's own fit, of observed win rates."""
    names, rows = list(results.settings.debaters), results.judged_by(judge)
    rates: dict[tuple[Node, Node], float] = {}
    for place, one in enumerate(names):
        for other in names[place + 1 :]:
            found = win_rate(rows, one, other)
            if found is not None:
                rates[(one,), (other,)] = found.mean
    return least_squares(rates) if rates else {}


def _notes(results: Results) -> list[str]:
    """What a reader has to know before any other figure."""
    notes = []
    stories = len(set(results.groups.values()))
    notes.append(f"{len(results.items)} questions about {stories} stories.")
    for judge in results.settings.judges:
        naive, expert = (
            accuracy(results.bound(judge, p), results.groups, results.seed).accuracy
            for p in ("naive", "expert")
        )
        apart = _apart(results, results.bound(judge, "naive"), results.bound(judge, "expert"))
        text = f"{judge}: accuracy {shown(naive)} without the story, {shown(expert)} with it"
        if apart is not None and _sign(apart, results) <= 0:
            text += "; that the story helps it is not shown, so nothing is there to recover"
        notes.append(f"{text}.")
        notes += _against_naive(results, judge)
    if results.settings.selects and results.settings.preference is None:
        notes.append(
            f"Candidates are chosen by {results.settings.rater}, who judges as well: what is "
            "chosen pleases the judge by construction. Name a `preference` or read a second judge."
        )
    failed = sum(row["failure"] is not None for row in results.outcomes)
    if failed:
        notes.append(f"{failed} verdicts are missing as a debate has no argument in some round.")
    return notes


def _against_naive(results: Results, judge: str) -> list[str]:
    lines = []
    naive = results.bound(judge, "naive")
    for system, rows in results.systems.items():
        if system.judge != judge or system.protocol in ("naive", "expert") or not naive:
            continue
        found = _apart(results, naive, rows)
        if found is not None:
            tail = "." if _sign(found, results) else ": no difference is shown."
            lines.append(f"{judge}, {system.title} less naive: {signed(found)}{tail}")
    return lines


def _apart(results: Results, before: Sequence[Row], after: Sequence[Row]) -> Estimate | None:
    """Mean accuracy of the questions that both have, the second less the first, by question."""
    one, other = _by_question(before), _by_question(after)
    shared = [item for item in one if item in other]
    return clustered_estimate(
        [other[item] - one[item] for item in shared],
        [results.groups[item] for item in shared],
        results.seed,
    )


def _by_question(rows: Sequence[Row]) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for row in rows:
        if row["correct"] is not None:
            values.setdefault(row["item_id"], []).append(float(row["correct"]))
    return {item: sum(several) / len(several) for item, several in values.items()}


def _sign(found: Estimate, results: Results) -> int:
    """1 of a difference that is shown to be above 0, -1 below, else 0.

    Where every question has the same difference there is no interval, and no doubt.
    """
    if found.low is None or found.high is None:
        several = len(set(results.groups.values())) > 1
        return (found.value > 0) - (found.value < 0) if several else 0
    return (found.low > 0) - (found.high < 0)
