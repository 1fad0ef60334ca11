"""Sheets that came back: checked cell by cell, so that no score is guessed or lost in silence."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rldf_ray.evaluate.judge.rubrics import MEASURES, Measure
from rldf_ray.evaluate.people.sheet import COLUMNS, Sheet, SheetError
from rldf_ray.storage.csv_cells import from_cell

LISTED = 10
"""Most wrong cells an error names; the rest are counted."""

_READ = ("sheet", "rater", "item", *MEASURES)
_DELIMITERS = (",", ";", "\t")  # what spreadsheet programs write, by the country they are set to


@dataclass(frozen=True, slots=True)
class Rating:
    """A rater's score of one item by one measure, 0-100."""

    rater: str
    item: str
    measure: Measure
    score: int


def read_ratings(paths: Sequence[Path], sheet: Sheet) -> list[Rating]:
    """The scores in all files; an empty cell is no score.

    Raises:
        SheetError: a file is no sheet, or another sheet; or cells are wrong: every one (the first
            ten) is named by file, row, item and field, with what is allowed.
    """
    all_ratings: list[Rating] = []
    problems: list[str] = []
    files: dict[str, Path] = {}
    for path in paths:
        rows = _rows(path)
        rater = _rater(rows, path, problems)
        if rater in files:
            problems.append(
                f"{path}: rater is {rater!r}, as in {files[rater]}; allowed: one file a rater"
            )
        files.setdefault(rater, path)
        ratings = _ratings(rows, path, rater, sheet, problems)
        if not ratings and not problems:
            problems.append(f"{path}: there is no score in it")
        all_ratings += ratings
    if problems:
        rest = [f"and {len(problems) - LISTED} more"] if len(problems) > LISTED else []
        raise SheetError("\n".join([*problems[:LISTED], *rest]))
    return all_ratings


def _rows(path: Path) -> list[dict[str, str]]:
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
            {name: from_cell((cell or "").strip()) for name, cell in row.items() if name in COLUMNS}
            for row in reader
        ]
    except csv.Error as error:
        raise SheetError(f"{path}: not CSV ({error})") from error
    missing = [name for name in _READ if name not in (reader.fieldnames or ())]
    if missing:
        raise SheetError(
            f"{path}: no column {', '.join(missing)}; found: {reader.fieldnames}; needed: "
            f"{', '.join(_READ)}"
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


def _ratings(
    rows: Sequence[dict[str, str]], path: Path, rater: str, sheet: Sheet, problems: list[str]
) -> list[Rating]:
    known = {item.code for item in sheet.items}
    seen: set[str] = set()
    ratings: list[Rating] = []
    for number, row in enumerate(rows, start=1):
        where = f"{path}, row {number} (item {row['item'] or 'without a code'})"
        if row["sheet"] != sheet.name:
            problems.append(f"{where}: sheet is {row['sheet']!r}; this key is of {sheet.name!r}")
        elif row["item"] not in known:
            problems.append(f"{where}: item is not one of the {len(known)} of this sheet")
        elif row["item"] in seen:
            problems.append(f"{where}: item stands there a second time")
        else:
            seen.add(row["item"])
            ratings += _scores(row, where, rater, problems)
    return ratings


def _scores(row: dict[str, str], where: str, rater: str, problems: list[str]) -> list[Rating]:
    ratings = []
    for measure in MEASURES:
        cell = row[measure]
        # "70.0" is what some programs make of 70.
        whole = cell.removesuffix(".0")
        if not cell:
            continue
        if whole.isascii() and whole.isdecimal() and int(whole) <= 100:
            ratings.append(Rating(rater, row["item"], measure, int(whole)))
        else:
            problems.append(
                f"{where}: {measure} is {cell!r}; allowed: a whole number from 0 to 100, or nothing"
            )
    return ratings
