"""What a study of MABRF reports: whether its judge can be believed, then what the loop did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from rldf_ray.figures.estimates import shown, signed
from rldf_ray.protocols.mabrf.figures import passes_figure, relevancy_figure
from rldf_ray.protocols.mabrf.items import MabrfItem
from rldf_ray.protocols.mabrf.measures import changes, measured
from rldf_ray.protocols.mabrf.results import Results
from rldf_ray.protocols.mabrf.settings import MabrfSettings
from rldf_ray.protocols.mabrf.squad.tables import (
    reader_differences,
    reader_table,
    retrieval_table,
)
from rldf_ray.protocols.mabrf.tables import all_tables
from rldf_ray.protocols.study import Summary


def summary(
    items: Sequence[MabrfItem],
    tables: Mapping[str, pa.Table],
    settings: MabrfSettings,
    seed: int,
) -> Summary:
    """Tables 1, 3, 4, 5 and Figure 4 in form, for what the study has of them."""
    results = Results(items=items, tables=tables, settings=settings, seed=seed)
    if settings.kind == "squad":
        made = [reader_table(results), reader_differences(results), retrieval_table(results)]
        return Summary(
            tables=[table for table in made if table is not None and table.rows],
            figures=[],
            facts={"questions": len(items)},
            notes=_reader_notes(results),
        )
    found = all_tables(results)
    drawn = [relevancy_figure(results), passes_figure(results)]
    return Summary(
        tables=[table for table in found if table is not None and table.rows],
        figures=[figure for figure in drawn if figure is not None],
        facts={"arms": [_facts(results, arm) for arm in results.arms]},
        notes=_notes(results),
    )


def _facts(results: Results, arm: str) -> dict[str, Any]:
    outcomes = results.arms[arm]
    figures = {
        f"{name}_{when}": value
        for when in (0, 1)
        for name, value in _flat(results, arm, when).items()
    }
    return {"arm": arm, **figures, "changes": asdict(changes(results.items, outcomes))}


def _flat(results: Results, arm: str, when: Any) -> dict[str, Any]:
    found = measured(results.items, results.arms[arm], when, results.threshold, results.seed)
    return {} if found is None else asdict(found)


def _notes(results: Results) -> list[str]:
    """What a reader has to know before any other figure."""
    notes = []
    for arm, outcomes in results.arms.items():
        before, after = (
            measured(results.items, outcomes, when, results.threshold, results.seed)
            for when in (0, 1)
        )
        if before is None or after is None:
            notes.append(f"{arm}: no item was answered.")
            continue
        spread = results.retest("bias", outcomes)
        found = changes(results.items, outcomes)
        notes.append(
            f"{arm}: {before.no_verdict} of {before.n} first verdicts did not parse, "
            f"{before.no_answer} first answers named no option; the judge flags "
            f"{shown(before.flagged)} of first steps and {shown(after.flagged)} of the last; asked "
            f"again it differs from itself by {shown(spread)}. Answers: {found.fixed} fixed, "
            f"{found.worsened} worsened, {found.without_pass} changed without a pass."
        )
        if found.p is None or found.p > 0.05:
            notes.append(f"{arm}: that the loop changes accuracy is not shown.")
    return notes


def _reader_notes(results: Results) -> list[str]:
    has = sum(bool(item.golds) for item in results.items)
    articles = len({item.group for item in results.items})
    nothing = 100 * (1 - has / len(results.items))
    first = (
        f"{len(results.items)} questions of {articles} articles, {has} with an answer; one that "
        f"always answers nothing has {nothing:.1f} EM."
    )
    notes = [first]
    table = reader_differences(results)
    notes += [f"{arms}: {em} EM, {f} F1." for arms, em, f in table.rows if "search" in arms]
    failed = {
        arm: sum(row["prediction"] is None for row in outcomes.values())
        for arm, outcomes in results.arms.items()
    }
    if any(failed.values()):
        notes.append(
            "Replies that did not parse: "
            f"{', '.join(f'{n} ({arm})' for arm, n in failed.items() if n)}."
        )
    empty = results.mean(
        lambda row: None if row["hits"] is None else float(row["hits"] == 0),
        {
            i: row
            for arm in results.arms.values()
            for i, row in arm.items()
            if row["gold_found"] is not None
        },
    )
    if empty is not None and empty.value:
        notes.append(f"{signed(empty)} of searches found nothing.")
    return notes
