"""Files that people give, read row by row: all wrong rows are counted, the first ones named."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from rldf_ray.dataset import DatasetError
from rldf_ray.storage.json_lines import numbered_lines
from rldf_ray.storage.parquet import given_batches

# How many wrong rows one message names.
NAMED = 10
# How much of a wrong value it shows.
SHOWN = 60

R = TypeVar("R", bound=BaseModel)


def checked_rows(
    path: Path, model: type[R], also: Callable[[R], str | None] = lambda row: None
) -> Iterator[R]:
    """The rows of a .jsonl or .parquet file; what was made of them counts once all have been read.

    Args:
        also: what else is wrong with a row that is one of `model`.

    Raises:
        DatasetError: at the end: it is empty, or has wrong rows: the first ones, with their line
            (.jsonl) or row (.parquet) from 1, the field, what was found and what is allowed.
        LinesError, ParquetError: it is neither text nor a Parquet file.
    """
    wrong: list[str] = []
    empty, more = True, 0
    for place, validated in _validated(path, model):
        empty = False
        if not isinstance(validated, list) and (problem := also(validated)):
            validated = [problem]  # noqa: PLW2901
        if isinstance(validated, list):
            more += max(0, len(validated) - (NAMED - len(wrong)))
            wrong += [f"{place}: {problem}" for problem in validated[: NAMED - len(wrong)]]
        elif not wrong:
            yield validated
    if wrong:
        rest = f"\n  and {more} more" if more else ""
        raise DatasetError(f"{path}:\n  " + "\n  ".join(wrong) + rest)
    if empty:
        raise DatasetError(f"{path} holds no rows")


def read_rows(path: Path, model: type[R]) -> list[R]:
    """All rows at once; raises what `checked_rows` raises."""
    return list(checked_rows(path, model))


def _validated(path: Path, model: type[R]) -> Iterator[tuple[str, R | list[str]]]:
    """Each row's place, and the row or what is wrong with it."""
    if path.suffix == ".parquet":
        number = 0
        for batch in given_batches(path):
            for values in batch.to_pylist():
                number += 1
                given = {name: value for name, value in values.items() if value is not None}
                yield f"row {number}", _row(given, model)
    elif path.suffix == ".jsonl":
        for number, line in numbered_lines(path):
            yield f"line {number}", _line(line, model)
    else:
        raise DatasetError(f"{path}: expected a file that ends in .jsonl or .parquet")


def _row(values: Any, model: type[R]) -> R | list[str]:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        return [_problem(details) for details in error.errors()]


def _line(line: str, model: type[R]) -> R | list[str]:
    try:
        return model.model_validate_json(line)
    except ValidationError as error:
        details = error.errors()
    if details[0]["type"] != "json_invalid":
        return [_problem(one) for one in details]
    return _not_json(line, details[0]["ctx"]["error"], model)


def _not_json(line: str, why: str, model: type[R]) -> list[str]:
    """What is wrong with a line that the parser refuses, with the field as far as it can be told.

    Some of it is JSON to Python, which knows the field: half of a surrogate pair, for example.
    """
    try:
        row = _row(json.loads(line), model)
    except (ValueError, RecursionError):
        row = []
    if isinstance(row, list) and row:
        return row
    place = re.search(r"column (\d+)", why)
    column = int(place[1]) if place else 0
    before = line.encode()[:column].decode(errors="ignore")
    fields = [name for name in re.findall(r'"(\w+)"\s*:', before) if name in model.model_fields]
    where = f", in {fields[-1]}" if fields else ""
    why = why.replace("at line 1 ", "at ")
    found_there = _shown(before[-SHOWN // 2 :])
    return [f"not JSON: {why}{where} (found {found_there}); allowed: one JSON object a line"]


def _problem(details: Any) -> str:
    where = ".".join(str(part) for part in details["loc"])
    message = details["msg"].removeprefix("Value error, ")
    found = details["input"]
    shown = "" if isinstance(found, dict) else f" (found {_shown(found)})"
    return f"{where}: {message}{shown}" if where else message


def _shown(value: object) -> str:
    """The beginning of a value on one line, without characters that a terminal obeys."""
    try:
        text = ascii(value) if _has_surrogate(value) else repr(value)
    except ValueError:  # Python does not write whole numbers of thousands of digits.
        return "a whole number of thousands of digits"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _has_surrogate(value: object) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in str(value))
