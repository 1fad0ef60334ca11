"""Scores in sheets that came back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rldf_ray.evaluate.judge.rubrics import MEASURES, Measure
from rldf_ray.evaluate.people.returned import Column, read_returned
from rldf_ray.evaluate.people.sheet import Sheet


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
        SheetError: as `read_returned`.
    """
    columns = [Column(measure, _score, "a whole number from 0 to 100") for measure in MEASURES]
    cells = read_returned(paths, sheet.name, {item.code for item in sheet.items}, columns)
    measures = {str(measure): measure for measure in MEASURES}
    return [Rating(one.rater, one.item, measures[one.column], one.value) for one in cells]


def _score(cell: str) -> int | None:
    # "70.0" is what some programs make of 70.
    whole = cell.removesuffix(".0")
    good = whole.isascii() and whole.isdecimal() and int(whole) <= 100
    return int(whole) if good else None
