"""What a study came to: tables, figures, report.json and report.html, made anew every time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import pyarrow as pa

from rldf_ray.cluster.provenance import provenance
from rldf_ray.protocols.item_sets import ItemSet
from rldf_ray.protocols.known import study_named
from rldf_ray.protocols.study import Study, Summary
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.studies.holding import HELD, schemas
from rldf_ray.studies.page import study_page
from rldf_ray.studies.plans import LoadedStudy
from rldf_ray.studies.searches import searched_table
from rldf_ray.studies.writing import write_figures, write_tables


def report_study(
    name: str, items: Sequence[Any], loaded: LoadedStudy, folder: RunFolder
) -> Summary:
    """tables/, figures/, report.json, report.html."""
    study, plan = study_named(name), loaded.plan
    tables = {
        table: folder.read_table(f"data/{table}.parquet", schema)
        for table, schema in {**schemas(study), **_given(study, folder)}.items()
    }
    summary = study.summary(items, tables, loaded.settings, plan.seed)
    searched = folder.read_object("study.json").get("searched", {})
    if (table := searched_table(searched)) is not None:
        summary = replace(summary, tables=[*summary.tables, table])
    write_tables(folder, summary.tables)
    write_figures(folder, summary.figures)
    # What a study gives people besides tables and figures, where it gives them anything.
    for_people = getattr(study, "write_for_people", None)
    pages = for_people(folder, items, tables, loaded.settings, plan) if for_people else None
    held = folder.manifest(HELD) or {}
    report = {
        "study": name,
        "title": study.TITLE,
        "name": plan.name,
        "plan": plan.model_dump(mode="json"),
        "settings": loaded.settings.model_dump(mode="json"),
        "key": held.get("key"),
        "made_by": provenance(),
        "held": held,
        "items": len(items),
        "searched": searched,
        "notes": list(summary.notes),
        "facts": summary.facts,
        "tables": [asdict(table) for table in summary.tables],
        "pages": dict(pages or {}),
    }
    folder.write_json("report.json", report)
    folder.write_text("report.html", study_page(report, summary, folder))
    return summary


def report_again(
    name: str, loaded: LoadedStudy, items: Sequence[Any], folder: RunFolder
) -> Summary:
    """The report of a finished study, after people gave it something.

    Args:
        items: of its folder; what was left out of the data stands in its report.
    """
    facts = folder.read_object("report.json", ("facts",))["facts"]
    whole = ItemSet(items, facts.get("left_out", {}))
    return report_study(name, whole, loaded, folder)


def _given(study: Study, folder: RunFolder) -> dict[str, pa.Schema]:
    """The tables that people gave, where they gave any."""
    schemas: Mapping[str, pa.Schema] = getattr(study, "GIVEN", {})
    return {n: one for n, one in schemas.items() if folder.path(f"data/{n}.parquet").exists()}
