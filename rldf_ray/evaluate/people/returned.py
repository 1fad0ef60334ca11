"""Sheets that came back: checked cell by cell, so that nothing is guessed or lost in silence."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from rldf_ray.evaluate.people.sheet import SheetError
from rldf_ray.storage.csv_cells import from_cell

LISTED = 10
"""Most wrong cells an error names; the rest are counted."""

_OF_ROW = ("sheet", "rater", "item")
_DELIMITERS = (",", ";", "\t")  # what spreadsheet programs write, by the country they are set to

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Column(Generic[V]):
    """A column that raters fill in.

    Attributes:
        parse: the value of a cell that is not empty; None where it is not allowed.
        allowed: what is, in words.
    """

    name: str
    parse: Callable[[str], V | None]
    allowed: str


@dataclass(frozen=True, slots=True)
class Cell(Generic[V]):
    """What a rater filled in for an item in a column."""

    rater: str
    item: str
    column: str
    value: V


def read_returned(
    paths: Sequence[Path], sheet: str, items: Collection[str], columns: Sequence[Column[V]]
) -> list[Cell[V]]:
    """What is filled in in all files; an empty cell is nothing.

    Args:
        sheet: its name. items: their codes.

    Raises:
        SheetError: a file is no sheet, or another sheet; or cells are wrong: every one (the first
            ten) is named by file, row, item and column, with what is allowed.
    """
    every: list[Cell[V]] = []
    problems: list[str] = []
    files: dict[str, Path] = {}
    for path in paths:
        rows = _rows(path, [*_OF_ROW, *(column.name for column in columns)])
        rater = _rater(rows, path, problems)
        if rater in files:
            problems.append(
                f"{path}: rater is {rater!r}, as in {files[rater]}; allowed: one file a rater"
            )
        files.setdefault(rater, path)
        cells = _cells(rows, path, rater, sheet, items, columns, problems)
        if not cells and not problems:
            problems.append(f"{path}: nothing is filled in")
        every += cells
    if problems:
        rest = [f"and {len(problems) - LISTED} more"] if len(problems) > LISTED else []
        raise SheetError("\n".join([*problems[:LISTED], *rest]))
    return every


def _rows(path: Path, needed: Sequence[str]) -> list[dict[str, str]]:
    """The rows of a file, cells without outer blanks and as they were before they were written."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise SheetError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SheetError(f"{path}: {error}; allowed: CSV in UTF-8") from error
    head = text.split("\n", 1)[0]
    delimiter = max(_DELIMITERS, key=head.count)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        rows = [
            {name: from_cell((cell or "").strip()) for name, cell in row.items() if name in needed}
            for row in reader
        ]
    except csv.Error as error:
        raise SheetError(f"{path}: not CSV ({error})") from error
    missing = [name for name in needed if name not in (reader.fieldnames or ())]
    if missing:
        raise SheetError(
            f"{path}: no column {', '.join(missing)}; found: {reader.fieldnames}; needed: "
            f"{', '.join(needed)}"
        )
    if not rows:
        raise SheetError(f"{path}: no row in it")
    return rows


def _rater(rows: Sequence[dict[str, str]], path: Path, problems: list[str]) -> str:
    names = list(dict.fromkeys(row["rater"] for row in rows if row["rater"]))
    if not names:
        problems.append(f"{path}, row 1: rater is empty; needed: a name or a code of yours")
        return str(path)
    if len(names) > 1:
        problems.append(f"{path}: rater is {', '.join(map(repr, names))}; allowed: one a file")
    return names[0]


def _cells(
    rows: Sequence[dict[str, str]],
    path: Path,
    rater: str,
    sheet: str,
    items: Collection[str],
    columns: Sequence[Column[V]],
    problems: list[str],
) -> list[Cell[V]]:
    seen: set[str] = set()
    cells: list[Cell[V]] = []
    for number, row in enumerate(rows, start=1):
        where = f"{path}, row {number} (item {row['item'] or 'without a code'})"
        if row["sheet"] != sheet:
            problems.append(f"{where}: sheet is {row['sheet']!r}; this key is of {sheet!r}")
        elif row["item"] not in items:
            problems.append(f"{where}: item is not one of the {len(items)} of this sheet")
        elif row["item"] in seen:
            problems.append(f"{where}: item stands there a second time")
        else:
            seen.add(row["item"])
            cells += _filled_in(row, where, rater, columns, problems)
    return cells


def _filled_in(
    row: dict[str, str],
    where: str,
    rater: str,
    columns: Sequence[Column[V]],
    problems: list[str],
) -> list[Cell[V]]:
    cells = []
    for column in columns:
        cell = row[column.name]
        if not cell:
            continue
        value = column.parse(cell)
        if value is None:
            problems.append(
                f"{where}: {column.name} is {cell!r}; allowed: {column.allowed}, or nothing"
            )
        else:
            cells.append(Cell(rater, row["item"], column.name, value))
    return cells
