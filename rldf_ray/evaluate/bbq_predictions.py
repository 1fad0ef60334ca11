"""Predictions made elsewhere: one JSON object a line, checked line by line, joined with the items.

{"category": "Age", "example_id": 12, "prediction": 2}
{"category": "Age", "example_id": 13, "prediction": "The grandfather."}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rldf_ray.evaluate.bbq_data import (
    BBQError,
    BBQSet,
    Key,
    categories_in,
    load_bbq,
    numbered_lines,
    problem_of,
)
from rldf_ray.evaluate.bbq_score import Prediction, match_answer

LISTED = 10
"""Most wrong lines an error names; the rest are counted."""


class PredictionRow(BaseModel):
    """A line; `prediction` is an index as published, an answer's text, or null for none."""

    model_config = ConfigDict(strict=True)

    category: str
    example_id: int
    prediction: Annotated[int, Field(ge=0, le=2)] | str | None


@dataclass(frozen=True, slots=True)
class Predicted:
    """Items and a prediction for each.

    Attributes:
        items: every item of the categories in the file.
        predictions: by item; None for what is missing or is no option.
        texts: what a prediction said, where it was text.
        missing: items the file says nothing about.
    """

    items: BBQSet
    predictions: Mapping[Key, Prediction]
    texts: Mapping[Key, str]
    missing: int


def read_predictions(path: Path, bbq: Path, only: Path | None = None) -> Predicted:
    """Predictions of `path` for the items of `bbq`; only the categories in the file are read.

    Args:
        only: a file of `rldf eval bbq-hard`; other items are left out.

    Raises:
        FileNotFoundError: no such file or folder.
        BBQError: lines are wrong, or name items that are not in the folder; every one is named by
            its number, with what was found and what is allowed.
    """
    rows, problems = _rows(path)
    known = categories_in(bbq)
    problems |= {
        number: f"category is {row.category!r}; allowed: {', '.join(known)}"
        for number, row in rows.items()
        if row.category not in known
    }
    _refuse(path, problems)
    if not rows:
        raise BBQError(f"{path}: no line in it; needed: one JSON object a line")
    items = load_bbq(bbq, sorted({row.category for row in rows.values()}))
    by_key = {item.key: item for item in items.items}
    given: dict[Key, PredictionRow] = {}
    for number, row in rows.items():
        key = (row.category, row.example_id)
        if key not in by_key:
            problems[number] = f"{row.category} has no example_id {row.example_id} in {bbq}"
        elif key in given:
            problems[number] = f"a second line about {row.category} {row.example_id}"
        given.setdefault(key, row)
    _refuse(path, problems)
    if only is not None:
        wanted = set(read_subset(only, load_bbq(bbq)))
        items = replace(items, items=tuple(i for i in items.items if i.key in wanted))
        by_key = {item.key: item for item in items.items}
        given = {key: row for key, row in given.items() if key in wanted}
    texts = {key: r.prediction for key, r in given.items() if isinstance(r.prediction, str)}
    parsed: dict[Key, Prediction] = {
        key: match_answer(row.prediction, by_key[key])
        if isinstance(row.prediction, str)
        else row.prediction
        for key, row in given.items()
    }
    predictions = {key: parsed.get(key) for key in by_key}
    return Predicted(items, predictions, texts, len(by_key) - len(given))


def read_subset(path: Path, items: BBQSet) -> list[Key]:
    """The items a file of `rldf eval bbq-hard` names, which must be in `items`.

    Raises:
        BBQError: a line is wrong or names no item.
    """
    rows, problems = _rows(path)
    known = {item.key for item in items.items}
    keys = {number: (row.category, row.example_id) for number, row in rows.items()}
    problems |= {
        number: f"{key[0]} has no example_id {key[1]} in {items.source}"
        for number, key in keys.items()
        if key not in known
    }
    _refuse(path, problems)
    return list(dict.fromkeys(keys.values()))


def _rows(path: Path) -> tuple[dict[int, PredictionRow], dict[int, str]]:
    """The lines by number, and what is wrong with the others."""
    rows: dict[int, PredictionRow] = {}
    problems: dict[int, str] = {}
    for number, line in numbered_lines(path):
        try:
            rows[number] = PredictionRow.model_validate_json(line)
        except ValidationError as error:
            problems[number] = "; ".join(dict.fromkeys(map(problem_of, error.errors())))
    return rows, problems


def _refuse(path: Path, problems: Mapping[int, str]) -> None:
    if not problems:
        return
    numbers: Sequence[int] = sorted(problems)
    lines = [f"{path}, line {number}: {problems[number]}" for number in numbers[:LISTED]]
    if len(numbers) > LISTED:
        lines.append(f"and {len(numbers) - LISTED} more lines")
    raise BBQError("\n".join(lines))
