"""A study's folder: what people are given in it, and what they decided.

review.csv, review.html     what a person has to look at, to be filled in
data/decisions.parquet      what people decided so far
remediation.html, .json     the case for each text, with what was decided
data/remediation.parquet    the same as a table
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from rldf_ray.protocols.evince import review
from rldf_ray.protocols.evince.case import entries, remediation_table
from rldf_ray.protocols.evince.cost import TURNS
from rldf_ray.protocols.evince.items import ITEM_SCHEMA, LABELS, VOTES, EvinceItem, items_of
from rldf_ray.protocols.evince.page import remediation_page, sheet_page
from rldf_ray.protocols.evince.records import ARGUMENTS, OUTCOMES, ROUNDS, Row
from rldf_ray.protocols.evince.results import Results
from rldf_ray.protocols.evince.scale import load_scale
from rldf_ray.protocols.evince.settings import EvinceSettings
from rldf_ray.storage.run_folder import RunFolder

ITEMS = "data/items.parquet"
DECISIONS = "data/decisions.parquet"
MARK = "\ufeff"
"""Of UTF-8: without it some spreadsheet programs take a file for another encoding."""


def results_in(folder: RunFolder, settings: EvinceSettings, seed: int) -> Results:
    """What a finished study holds, also of one in an object store.

    Raises:
        UserError: the study is not finished, or its files are not to be read.
    """
    folder.fetched("data")
    schemas = {"outcomes": OUTCOMES, "rounds": ROUNDS, "arguments": ARGUMENTS, "turns": TURNS}
    names = folder.table_metadata(ITEMS).schema.to_arrow_schema().names
    more = [field for field in (VOTES, LABELS) if field.name in names]
    items = list(items_of(folder.read_table(ITEMS, pa.schema([*ITEM_SCHEMA, *more]))))
    tables = {
        name: folder.read_table(f"data/{name}.parquet", schema) for name, schema in schemas.items()
    }
    return results_of(items, tables, settings, seed)


def results_of(
    items: Sequence[EvinceItem],
    tables: Mapping[str, pa.Table],
    settings: EvinceSettings,
    seed: int,
) -> Results:
    """Items and tables as reports read them."""
    return Results(
        items={item.item_id: item for item in items},
        tables=tables,
        settings=settings,
        scale=load_scale(settings.scale),
        seed=seed,
    )


def write_for_people(folder: RunFolder, results: Results, title: str) -> None:
    """The sheets and the remediation report, with the decisions that are there."""
    decisions = decisions_in(folder)
    # A sheet with something in it that nobody has taken in yet is somebody's work.
    sheet = folder.path("review.csv")
    if not (sheet.exists() and review.has_more(sheet, decisions)):
        text = review.sheet_text(review.sheet_rows(results, decisions))
        folder.write_text("review.csv", f"{MARK}{text}")
    folder.write_text("review.html", sheet_page(results, title))
    found = entries(results, decisions)
    folder.write_text("remediation.html", remediation_page(results, found, title))
    folder.write_json("remediation.json", found)
    folder.write_table("data/remediation.parquet", remediation_table(found))


def decisions_in(folder: RunFolder) -> list[Row]:
    """What people decided so far; nothing where no sheet came back."""
    if not folder.path(DECISIONS).exists():
        return []
    rows: list[Row] = folder.read_table(DECISIONS, review.DECISIONS).to_pylist()
    return rows


def take_in(folder: RunFolder, results: Results, sheet: Path, title: str) -> list[Row]:
    """A filled-in sheet's decisions, added to those there are; they make the report anew.

    Raises:
        SheetError: it is no sheet of this study; nothing is changed.
    """
    now = review.decide(review.read_sheet(sheet, results), results)
    every = review.merged(decisions_in(folder), now, results.items)
    folder.write_table(
        DECISIONS, pa.Table.from_pylist([dict(row) for row in every], review.DECISIONS)
    )
    write_for_people(folder, results, title)
    return list(now)
