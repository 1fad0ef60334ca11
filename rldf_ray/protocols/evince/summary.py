"""What a study of EVINCE reports: how its dialogues ended, then what its labels are worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from rldf_ray.protocols.evince import tables as t
from rldf_ray.protocols.evince.agreement import agreement
from rldf_ray.protocols.evince.figures import course_figure, raters_figure, triangle_figure
from rldf_ray.protocols.evince.information import (
    Shared,
    information_facts,
    information_table,
    shared_by_round,
)
from rldf_ray.protocols.evince.items import EvinceItem
from rldf_ray.protocols.evince.label_tables import labels_tables
from rldf_ray.protocols.evince.notes import notes, review_reasons
from rldf_ray.protocols.evince.results import Results
from rldf_ray.protocols.evince.scale import load_scale
from rldf_ray.protocols.evince.settings import EvinceSettings
from rldf_ray.protocols.item_sets import left_out_of
from rldf_ray.protocols.study import Summary


def summary(
    items: Sequence[EvinceItem],
    tables: Mapping[str, pa.Table],
    settings: EvinceSettings,
    seed: int,
) -> Summary:
    """Tables 1, 2, 3, 5 to 9 and Figures 2, 3, 4 in form, for what the study has of them."""
    results = Results(
        items={item.item_id: item for item in items},
        tables=tables,
        settings=settings,
        scale=load_scale(settings.scale),
        seed=seed,
        left_out=left_out_of(items),
    )
    shared = shared_by_round(results)
    made = [
        t.dialogues_table(results),
        t.failures_table(results),
        t.agreement_table(results),
        t.differences_table(results),
        *labels_tables(results),
        t.round_table(results),
        information_table(shared),
        t.arguments_table(results),
        t.justifications_table(results),
        t.duality_table(results),
    ]
    drawn = [triangle_figure(results), raters_figure(results), course_figure(results)]
    return Summary(
        tables=[table for table in made if table is not None and table.rows],
        figures=[figure for figure in drawn if figure is not None],
        facts=_facts(results, shared),
        notes=notes(results),
    )


def _facts(results: Results, shared: Sequence[Shared]) -> dict[str, Any]:
    found = []
    for target in results.targets:
        for system in results.systems:
            for who in results.people:
                pairs, texts = results.paired(
                    results.labels(system, target), results.given(who, target)
                )
                agreed = agreement(pairs, texts, results.scale, results.seed)
                if agreed is not None:
                    found.append({"target": target, "system": system, "who": who, **asdict(agreed)})
    return {
        "agreement": found,
        "review": dict(review_reasons(results)),
        "information": information_facts(shared),
        "left_out": dict(results.left_out),
    }
