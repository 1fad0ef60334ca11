"""Predictions for the multi-role debate set made elsewhere, and the queries to make them from.

{"bias_type": "age", "row": 12, "prediction": 2}
{"bias_type": "age", "row": 14, "prediction": "Adaptable.", "order": [2, 0, 1]}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from rldf_ray.evaluate.bbq.predictions import Given, Place
from rldf_ray.evaluate.bbq.prompt import ask, order_of
from rldf_ray.evaluate.bbq.summary import Answer
from rldf_ray.evaluate.multirole.data import BIAS_TYPES, MultiroleError, MultiroleSet
from rldf_ray.sets.bbq.items import Key
from rldf_ray.sets.bbq.score import match_answer
from rldf_ray.sets.bbq.subset import Whole
from rldf_ray.storage.json_lines import parsed_lines, refuse
from rldf_ray.storage.json_text import json_text


class PredictionRow(BaseModel):
    """A line.

    Attributes:
        prediction: an option's index as published (anti_stereotype, stereotype, unrelated), its
            text, or null for none.
        order: the published index of the option shown first, second, third, where known.
    """

    model_config = ConfigDict(strict=True)

    bias_type: str
    row: Whole
    prediction: Given
    order: tuple[Place, Place, Place] | None = None


@dataclass(frozen=True, slots=True)
class MultirolePredictions:
    """What a file says about the queries of a set.

    Attributes:
        answers: one for each query; a prediction of None for what is missing or is no option.
        missing: queries the file says nothing about.
        ignored: lines about rows that are not in the set's sample.
    """

    answers: Mapping[Key, Answer]
    missing: int
    ignored: int


def bias_types_in(path: Path) -> list[str]:
    """The bias types a file of predictions is about; only they are scored.

    Raises:
        LinesError: lines are wrong; every one is named by its number, with what is allowed.
        MultiroleError: there is none.
    """
    return sorted({row.bias_type for row in _rows(path).values()})


def read_multirole_predictions(path: Path, queries: MultiroleSet) -> MultirolePredictions:
    """The predictions of `path` for `queries`.

    Raises:
        FileNotFoundError: no such file.
        LinesError, MultiroleError: as `bias_types_in`; two lines are about one row, or one is about
            none in the set's file.
    """
    given: dict[Key, PredictionRow] = {}
    problems: dict[int, str] = {}
    for number, row in _rows(path).items():
        key = (row.bias_type, row.row)
        if key in given:
            problems[number] = f"a second line about {row.bias_type} {row.row}"
        elif key not in queries.rows:
            problems[number] = f"{row.bias_type} has no row {row.row} in {queries.source}"
        given.setdefault(key, row)
    refuse(path, problems)
    answers: dict[Key, Answer] = {}
    for item in queries.items:
        line = given.get(item.key)
        prediction = None if line is None else line.prediction
        answers[item.key] = Answer(
            prediction=match_answer(prediction, item)
            if isinstance(prediction, str)
            else prediction,
            order=None if line is None else line.order,
            text=prediction if isinstance(prediction, str) else None,
        )
    known = sum(key in given for key in answers)
    return MultirolePredictions(
        answers=answers,
        missing=len(answers) - known,
        ignored=len(given) - known,
    )


def written_queries(queries: MultiroleSet, seed: int) -> str:
    """One JSON object a query: what a model elsewhere is to be asked, options already shuffled."""
    lines = []
    for item in queries.items:
        presented = ask(item, "generate", order_of(item, permute=True, seed=seed))
        line = {
            "bias_type": item.category,
            "row": item.example_id,
            "order": list(presented.order),
            "options": list(presented.answers),
            "prompt": presented.messages[0]["content"],
        }
        lines.append(json_text(line, ensure_ascii=False) + "\n")
    return "".join(lines)


def _rows(path: Path) -> dict[int, PredictionRow]:
    """The lines by number."""
    rows, problems = parsed_lines(path, PredictionRow)
    allowed = tuple(BIAS_TYPES.values())
    for number, row in rows.items():
        if row.bias_type not in allowed:
            problems[number] = f"bias_type is {row.bias_type!r}; allowed: {', '.join(allowed)}"
        elif row.order is not None and len(set(row.order)) < len(row.order):
            problems[number] = f"order is {list(row.order)}; allowed: 0, 1 and 2, each once"
    refuse(path, problems)
    if not rows:
        raise MultiroleError(f"{path}: no line in it; needed: one JSON object a line")
    return rows
