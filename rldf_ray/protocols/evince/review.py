"""The review sheet: out for people to decide on, and in again.

The paper leaves to experts what does not converge (section 3.2.3). A decision is computed from what
was recorded, without a model call; the same sheet read twice leaves what it left the first time.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

import pyarrow as pa

from rldf_ray.errors import UserError
from rldf_ray.protocols.evince.records import Row, scores_of, trace_of
from rldf_ray.protocols.evince.remediation import loaded
from rldf_ray.protocols.evince.replay import decided_again
from rldf_ray.protocols.evince.results import Results
from rldf_ray.storage.csv_cells import from_cell, text_cell
from rldf_ray.storage.table_rows import read_rows

Choice = Literal["", "keep", "change", "show both", "withdraw"]
BLANK = ("decision", "change_to", "reject", "person", "date", "reason")
"""Columns that a person fills in."""
COLUMNS = (
    "item_id",
    "title",
    "target",
    "given",
    "label",
    "status",
    "review",
    "proposed",
    "proposal",
    "arguments",
    *BLANK,
)

DECISIONS = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("item_id", *BLANK[:2])),
        pa.field("reject", pa.list_(pa.string())),
        *(pa.field(name, pa.string()) for name in BLANK[3:]),
        # The dialogue's label as it was, and without the rejected arguments.
        pa.field("label", pa.string()),
        pa.field("label_again", pa.string()),
        pa.field("distribution_again", pa.list_(pa.float64())),
        # What the text gets: the label that was kept, changed to, or both.
        pa.field("final", pa.list_(pa.string())),
    ]
)


class SheetError(UserError):
    """A review sheet is none, or says what cannot be; the message names line and column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """What a person filled in for an item."""

    item_id: str
    decision: Choice
    change_to: str
    reject: tuple[str, ...]
    person: str
    date: str
    reason: str

    @property
    def is_blank(self) -> bool:
        return not (self.decision or self.change_to or self.reject)


def sheet_rows(
    results: Results, decisions: Iterable[Mapping[str, Any]] = (), every: bool = False
) -> Iterator[dict[str, str]]:
    """The rows of a sheet: items that a person has to look at, or all.

    Args:
        decisions: what was decided already; the other rows' six columns are empty.
    """
    decided = {row["item_id"]: row for row in decisions}
    for item_id, row in results.outcomes.get("main", {}).items():
        if not (row["review"] or every):
            continue
        item, case = results.items[item_id], loaded(row["remediation"]) or {}
        yield {
            "item_id": item_id,
            "title": item.title,
            "target": item.target,
            "given": "; ".join(f"{who}: {label}" for who, label in item.given.items()),
            "label": row["label"] or "",
            "status": row["status"],
            "review": "; ".join(row["review"]),
            "proposed": case.get("action", ""),
            "proposal": case.get("proposal", ""),
            "arguments": "\n".join(map(_line, results.arguments.get((item_id, "main"), ()))),
            **_filled_in(decided.get(item_id)),
        }


def _filled_in(decision: Mapping[str, Any] | None) -> dict[str, str]:
    """The columns that a person fills in, as somebody did, or empty."""
    if decision is None:
        return dict.fromkeys(BLANK, "")
    return {**{name: decision[name] for name in BLANK}, "reject": " ".join(decision["reject"])}


def has_more(path: Path, decisions: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a sheet has something filled in that is not among the decisions.

    What cannot be read counts as filled in: it is somebody's.
    """
    known = {row["item_id"]: _filled_in(row) for row in decisions}
    try:
        rows = [cells for _, cells in read_rows(path, ["item_id", *BLANK])]
    except UserError:
        return True
    return any(
        any(cells[name].strip() for name in BLANK)
        and known.get(from_cell(cells["item_id"]))
        != {name: from_cell(cells[name].strip()) for name in BLANK}
        for cells in rows
    )


def _line(row: Row) -> str:
    flagged = f" [{', '.join(row['flags'])}]" if row["flags"] else ""
    return f"{row['argument_id']} ({row['label']}): {row['claim']} {row['reason']}{flagged}"


def sheet_text(rows: Iterable[Mapping[str, str]]) -> str:
    """The sheet as CSV; cells that a spreadsheet would compute are made text."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: text_cell(row[name]) for name in COLUMNS} for row in rows)
    return text.getvalue()


def read_sheet(path: Path, results: Results) -> list[Filled]:
    """What people filled in; rows left blank are left out.

    Raises:
        SheetError, RowsError: the file is no sheet of this study; says line and column.
    """
    filled, seen = [], set()
    for number, cells in read_rows(path, ["item_id", *BLANK]):
        if not any(cell.strip() for cell in cells.values()):
            continue
        one = _filled(path, number, cells)
        if one.item_id in seen:
            raise SheetError(f"{path}, line {number}: item_id {one.item_id!r} stands there twice")
        seen.add(one.item_id)
        _check(path, number, one, results)
        if not one.is_blank:
            filled.append(one)
    return filled


def _filled(path: Path, number: int, cells: Mapping[str, str]) -> Filled:
    decision = " ".join(cells["decision"].lower().split())
    if decision not in get_args(Choice):
        raise SheetError(
            f"{path}, line {number}: decision is {cells['decision']!r}; allowed: "
            f"{', '.join(filter(None, get_args(Choice)))}, or nothing"
        )
    return Filled(
        item_id=from_cell(cells["item_id"]),
        decision=cast(Choice, decision),
        change_to=from_cell(cells["change_to"].strip()),
        reject=tuple(cells["reject"].replace(",", " ").replace(";", " ").split()),
        person=from_cell(cells["person"].strip()),
        date=from_cell(cells["date"].strip()),
        reason=from_cell(cells["reason"].strip()),
    )


def _check(path: Path, number: int, one: Filled, results: Results) -> None:
    where = f"{path}, line {number}"
    if one.item_id not in results.outcomes.get("main", {}):
        raise SheetError(f"{where}: item_id {one.item_id!r} is no dialogue of this study")
    if one.change_to and one.change_to not in results.scale.names:
        raise SheetError(
            f"{where}: change_to is {one.change_to!r}; allowed: {', '.join(results.scale.names)}"
        )
    if one.change_to and one.decision != "change":
        raise SheetError(f"{where}: change_to is given, but decision is not change")
    _check_labels(where, one, results)
    arguments = results.arguments.get((one.item_id, "main"), ())
    if one.reject and not any(scores_of(argument) for argument in arguments):
        raise SheetError(
            f"{where}: reject changes nothing, as no argument was rated by itself (crit.form)"
        )
    made = {row["argument_id"] for row in results.arguments.get((one.item_id, "main"), ())}
    unknown = [argument for argument in one.reject if argument not in made]
    if unknown:
        raise SheetError(
            f"{where}: reject names {unknown[0]!r}; the dialogue has {', '.join(sorted(made))}"
        )


def _check_labels(where: str, one: Filled, results: Results) -> None:
    """That there are the labels that a decision is about."""
    given = results.items[one.item_id].given
    label = results.outcomes["main"][one.item_id]["label"]
    if one.decision == "keep" and not given:
        raise SheetError(f"{where}: decision is keep, but the text came without a label")
    if one.decision == "change" and not one.change_to and label is None:
        raise SheetError(f"{where}: decision is change; say to what, as the dialogue has no label")
    if one.decision == "show both" and not given:
        raise SheetError(
            f"{where}: decision is show both, but the text came without a label; allowed: change"
        )
    if one.decision == "show both" and label is None:
        raise SheetError(
            f"{where}: decision is show both, but the dialogue has no label; allowed: keep, or "
            "change with a label in change_to"
        )


def decide(filled: Sequence[Filled], results: Results) -> list[dict[str, Any]]:
    """Rows of `DECISIONS`: each decision with what it makes of the label."""
    return [_decided(one, results) for one in filled]


def _decided(one: Filled, results: Results) -> dict[str, Any]:
    key, item = (one.item_id, "main"), results.items[one.item_id]
    row = results.outcomes["main"][one.item_id]
    label_again, distribution = row["label"], None
    if row["status"] != "failed":
        again = decided_again(
            trace_of(results.rounds[key]),
            results.arguments.get(key, ()),
            one.reject,
            row["status"],
            item.given,
            results.settings.crit,
            results.scale,
        )
        label_again, distribution = again.label, list(again.distributions[0])
    given = list(item.given.values())
    final = {
        "": [label_again],
        "keep": given,
        "change": [one.change_to or label_again],
        "show both": [*given, label_again],
        "withdraw": [],
    }[one.decision]
    return {
        **asdict(one),
        "label": row["label"],
        "label_again": label_again,
        "distribution_again": distribution,
        "final": [label for label in dict.fromkeys(final) if label is not None],
    }


def merged(
    before: Iterable[Mapping[str, Any]], now: Iterable[Mapping[str, Any]], order: Iterable[str]
) -> list[Mapping[str, Any]]:
    """Decisions of several sheets, one an item, the latest; in the items' order."""
    by_item = {row["item_id"]: row for rows in (before, now) for row in rows}
    kept = (by_item[item] for item in order if item in by_item)
    return [row for row in kept if row["decision"] != "withdraw"]
