"""Predictions made elsewhere: one JSON object a line, checked line by line, joined with the items.

{"category": "Age", "example_id": 12, "prediction": 2}
{"category": "Age", "example_id": 13, "prediction": "The grandfather."}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from rldf_ray.evaluate.bbq.summary import Evaluation
from rldf_ray.sets.bbq.data import categories_in, load_bbq
from rldf_ray.sets.bbq.items import BBQError, BBQSet, Key
from rldf_ray.sets.bbq.score import Prediction, match_answer
from rldf_ray.sets.bbq.subset import Whole, hard_reasons, read_subset, whole
from rldf_ray.storage.json_lines import parsed_lines, refuse


def _index(given: Any) -> Any:
    """A text such as "1.0" is an index as well. "1" may be what a model said of what it was shown,
    and stays a text."""
    if isinstance(given, str) and _NUMBER.fullmatch(given):
        number = float(given)
        if number not in (0, 1, 2):
            raise ValueError("is a number, but no index; allowed: 0, 1 or 2")
        return int(number)
    return whole(given)


_NUMBER = re.compile(r"\s*[+-]?\d+\.\d+\s*", re.ASCII)

Place = Annotated[int, Field(ge=0, le=2), BeforeValidator(whole)]
Given = Annotated[Annotated[int, Field(ge=0, le=2)] | str | None, BeforeValidator(_index)]
"""An option's index as published, an answer's text, or null for none."""


class PredictionRow(BaseModel):
    """A line; `prediction` is an index as published, an answer's text, or null for none."""

    model_config = ConfigDict(strict=True)

    category: str
    example_id: Whole
    prediction: Given


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """Items and a prediction for each.

    Attributes:
        items: every item of the categories in the file.
        predictions: by item; None for what is missing or is no option.
        texts: the words of a prediction, where it was text.
        missing: items the file says nothing about.
        unscored: items of a subset whose categories the file says nothing about.
    """

    items: BBQSet
    predictions: Mapping[Key, Prediction]
    texts: Mapping[Key, str]
    missing: int
    unscored: int = 0


def read_predictions(path: Path, bbq: Path, only: Path | None = None) -> Predicted:
    """Predictions of `path` for the items of `bbq`; only the categories in the file are read.

    Args:
        only: a file of `rldf eval bbq-hard`; other items are left out, and of its own those of
            categories that are not in `path`.

    Raises:
        FileNotFoundError: no such file or folder.
        LinesError: lines are wrong, or name items that are not in the folder; every one is named
            by its number, with the value read and what is allowed.
        BBQError: there is none, or the folder's files are wrong.
    """
    rows, problems = parsed_lines(path, PredictionRow)
    known = categories_in(bbq)
    problems |= {
        number: f"category is {row.category!r}; allowed: {', '.join(known)}"
        for number, row in rows.items()
        if row.category not in known
    }
    refuse(path, problems)
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
    refuse(path, problems)
    unscored = 0
    if only is not None:
        wanted = set(read_subset(only, load_bbq(bbq)))
        items = items.only(wanted)
        if not items.items:
            raise BBQError(
                f"{only}: none of its {len(wanted)} items is of the categories in {path}, which "
                f"are {', '.join(sorted({row.category for row in rows.values()}))}"
            )
        unscored = len(wanted) - len(items.items)
        by_key = {item.key: item for item in items.items}
        given = {key: row for key, row in given.items() if key in by_key}
    texts = {key: r.prediction for key, r in given.items() if isinstance(r.prediction, str)}
    parsed: dict[Key, Prediction] = {
        key: match_answer(row.prediction, by_key[key])
        if isinstance(row.prediction, str)
        else row.prediction
        for key, row in given.items()
    }
    predictions = {key: parsed.get(key) for key in by_key}
    return Predicted(
        items=items,
        predictions=predictions,
        texts=texts,
        missing=len(by_key) - len(given),
        unscored=unscored,
    )


def hard_items(evaluation: Evaluation) -> list[dict[str, Any]]:
    """One row a hard item: what the reference model answered, and why the item is hard.

    The rows name items and do not repeat them, so the file can be passed on without the data.
    """
    rows = []
    for item in evaluation.items.items:
        prediction = evaluation.predictions[item.key]
        why = hard_reasons(prediction, item.label, item.unknown, item.target_loc)
        if why:
            rows.append(
                {
                    "category": item.category,
                    "example_id": item.example_id,
                    "prediction": prediction,
                    "why": why,
                    "reference": evaluation.model,
                }
            )
    return rows
