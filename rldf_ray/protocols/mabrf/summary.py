"""What a study of MABRF reports: whether its judge can be believed, then what the loop did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from rldf_ray.protocols.item_sets import left_out_of
from rldf_ray.protocols.mabrf.counts import (
    judge_counts,
    search_counts,
    unread_readings,
    unread_replies,
)
from rldf_ray.protocols.mabrf.figures import passes_figure, relevancy_figure
from rldf_ray.protocols.mabrf.items import MabrfItem
from rldf_ray.protocols.mabrf.measures import changes, measured
from rldf_ray.protocols.mabrf.notes import loop_notes, reader_notes
from rldf_ray.protocols.mabrf.results import Results
from rldf_ray.protocols.mabrf.settings import MabrfSettings
from rldf_ray.protocols.mabrf.squad.tables import reader_tables
from rldf_ray.protocols.mabrf.tables import loop_tables
from rldf_ray.protocols.study import Summary


def summary(
    items: Sequence[MabrfItem],
    tables: Mapping[str, pa.Table],
    settings: MabrfSettings,
    seed: int,
) -> Summary:
    """Tables 1 to 5 and Figure 4 in form, for what the study has of them."""
    results = Results(
        items=items, tables=tables, settings=settings, seed=seed, left_out=left_out_of(items)
    )
    reads = settings.kind == "squad"
    unread = unread_readings(results) if reads else unread_replies(results)
    searches = {name: asdict(one) for name, one in search_counts(results).items()}
    facts: dict[str, Any] = {
        "left_out": dict(results.left_out),
        "unread": [asdict(one) for one in unread],
        "searches": searches,
    }
    if reads:
        return Summary(
            tables=reader_tables(results),
            figures=[],
            facts={"questions": len(items), **facts},
            notes=reader_notes(results),
        )
    drawn = [relevancy_figure(results), passes_figure(results)]
    arms = [_facts(results, arm) for arm in results.arms]
    return Summary(
        tables=loop_tables(results),
        figures=[figure for figure in drawn if figure is not None],
        facts={**facts, "judge": asdict(judge_counts(results)), "arms": arms},
        notes=loop_notes(results),
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
