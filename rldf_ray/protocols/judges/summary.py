"""What a study of judges reports: whether its judges can judge, then how biased they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from rldf_ray.figures.estimates import shown
from rldf_ray.protocols.judges import tables as t
from rldf_ray.protocols.judges.analysis import (
    Cell,
    Outcomes,
    System,
    accuracy,
    cell,
    health,
)
from rldf_ray.protocols.judges.figures import (
    consistency_figure,
    selection_figure,
    selection_shares,
)
from rldf_ray.protocols.judges.settings import JudgesSettings
from rldf_ray.protocols.judges.views import JudgedItem
from rldf_ray.protocols.study import Summary

UNPARSED = 0.1
"""Share of invalid verdicts above which a judge's other figures are said to mean little."""


def summary(
    items: Sequence[JudgedItem],
    tables: Mapping[str, pa.Table],
    settings: JudgesSettings,
    seed: int,
) -> Summary:
    """Tables 1 to 17 and Figures 3 and 6 in form, for what the study has of them."""
    verdicts = Outcomes(tables["outcomes"].to_pylist())
    by_id = {item.item_id: item for item in items}
    cells = {
        (system, number, condition): cell(verdicts, by_id, system, number, condition, seed)
        for system in verdicts.systems()
        for number in verdicts.rounds(system)
        for condition in t.perturbed(verdicts)
    }
    found = [
        t.health_table(verdicts),
        t.accuracy_table(verdicts, by_id, seed),
        t.debate_table(verdicts, cells) if settings.debates else None,
        t.meta_table(verdicts, cells) if settings.meta.pools else None,
        t.bias_table(cells, settings.bandwagon.target),
        t.tests_table(verdicts, cells),
        t.published_table(verdicts, cells),
    ]
    drawn = [consistency_figure(verdicts, by_id, seed), selection_figure(verdicts)]
    return Summary(
        tables=[table for table in found if table is not None and table.rows],
        figures=[figure for figure in drawn if figure is not None],
        facts={
            "cells": [_cell_facts(c) for c in cells.values()],
            "accuracy": _accuracies(verdicts, by_id, seed),
            "selected": selection_shares(verdicts),
            "identical_answers": sum(i.answer1 == i.answer2 for i in items),
        },
        notes=_notes(verdicts, cells, by_id, tables["turns"], settings, seed),
    )


def _cell_facts(found: Cell) -> dict[str, Any]:
    facts = asdict(found)
    return {**facts.pop("system"), **facts}


def _accuracies(
    outcomes: Outcomes, items: Mapping[str, JudgedItem], seed: int
) -> list[dict[str, Any]]:
    facts = []
    for system in outcomes.systems():
        for number in outcomes.rounds(system):
            for condition in outcomes.conditions():
                right = accuracy(outcomes.rows(system, number, condition), items, seed)
                if right is not None:
                    where = {"round": number, "condition": condition}
                    facts.append({**asdict(system), **where, "accuracy": asdict(right)})
    return facts


def _notes(
    outcomes: Outcomes,
    cells: Mapping[tuple[System, int, str], Cell],
    items: Mapping[str, JudgedItem],
    turns: pa.Table,
    settings: JudgesSettings,
    seed: int,
) -> list[str]:
    """What a reader has to know before any other figure."""
    notes = []
    for judge in settings.alone:
        alone = System(system="single", judge=judge)
        notes.append(_judge_note(outcomes, cells, items, alone, seed))
    same = sum(item.answer1 == item.answer2 for item in items.values())
    if same:
        notes.append(f"{same} of the {len(items)} items have two identical answers.")
    if "verbosity" in settings.conditions:
        notes += _twin_notes(outcomes, items, turns, settings)
    return notes


def _judge_note(
    outcomes: Outcomes,
    cells: Mapping[tuple[System, int, str], Cell],
    items: Mapping[str, JudgedItem],
    alone: System,
    seed: int,
) -> str:
    verdicts = [r for c in outcomes.conditions() for r in outcomes.rows(alone, 0, c)]
    found = health(verdicts)
    if found is None:
        return f"{alone.judge} gave no verdict alone."
    parts = [f"{found.invalid:.1%} of its {found.n} verdicts alone did not parse"]
    rerun = cells.get((alone, 0, "rerun"))
    if rerun is not None and rerun.consistency is not None:
        parts.append(f"asked again it keeps its verdict in {shown(rerun.consistency)}")
    right = accuracy(outcomes.rows(alone, 0, "clean"), items, seed)
    if right is not None:
        parts.append(
            f"its accuracy is {shown(right)} on {right.n} labelled items, where a tie or no "
            "verdict is not right"
        )
    text = f"{alone.judge}: {'; '.join(parts)}."
    if found.invalid > UNPARSED:
        text += " So many verdicts are none that its other figures say little."
    elif right is not None and (right.low is None or right.low <= 0.5):
        text += " That it judges better than a coin is not shown."
    return text


def _twin_notes(
    outcomes: Outcomes,
    items: Mapping[str, JudgedItem],
    turns: pa.Table,
    settings: JudgesSettings,
) -> list[str]:
    system = outcomes.systems()[0]
    asked = {row["item_id"] for row in outcomes.rows(system, 0, "verbosity")}
    lacking = len(items) - len(asked)
    written = sum(seat == "lengthen" for seat in turns["seat"].to_pylist())
    if not lacking and not written:
        return []
    limits = f"{settings.verbosity.min_ratio:g} to {settings.verbosity.max_ratio:g}"
    accepted = f"{written} twins were written ({limits} times the length is accepted)"
    return [f"Verbosity has {len(asked)} of the {len(items)} items; {accepted}."]
