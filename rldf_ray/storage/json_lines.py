"""Files of one JSON object a line, as people write them: what is wrong is named by its line."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from rldf_ray.errors import UserError

LISTED = 10
"""Most wrong lines an error names; the rest are counted."""

Row = TypeVar("Row", bound=BaseModel)


class LinesError(UserError, ValueError):
    """Lines are not what they should be; the message names file, line, field and what it holds."""


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file, gzip or plain, that are not blank, with their numbers from 1.

    Raises:
        OSError: the file cannot be read.
        LinesError: it is not UTF-8, or a broken gzip file.
    """
    number = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                # Some editors begin a file with a mark that says that it is UTF-8.
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
                if text:
                    yield number, text
    except UnicodeDecodeError as error:
        raise LinesError(f"{path}, line {number}: {error}; allowed: UTF-8 text") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise LinesError(f"{path}, after line {number}: broken gzip file ({error})") from error


def parsed_lines(path: Path, kind: type[Row]) -> tuple[dict[int, Row], dict[int, str]]:
    """The lines by number, and what is wrong with the others.

    Raises:
        OSError, LinesError: as `numbered_lines`.
    """
    rows: dict[int, Row] = {}
    problems: dict[int, str] = {}
    for number, line in numbered_lines(path):
        try:
            rows[number] = kind.model_validate_json(line)
        except ValidationError as error:
            problems[number] = problems_of(error)
    return rows, problems


def refuse(path: Path, problems: Mapping[int, str]) -> None:
    """Nothing where there are no problems.

    Raises:
        LinesError: there are; the first `LISTED` are named, one a line.
    """
    if not problems:
        return
    numbers = sorted(problems)
    lines = [f"{path}, line {number}: {problems[number]}" for number in numbers[:LISTED]]
    if len(numbers) > LISTED:
        lines.append(f"and {len(numbers) - LISTED} more lines")
    raise LinesError("\n".join(lines))


def problems_of(error: ValidationError) -> str:
    """'label: Input should be 0, 1 or 2 (found 3)', or the like; several on one line."""
    return "; ".join(dict.fromkeys(map(_problem, error.errors())))


def _problem(error: ErrorDetails) -> str:
    place = ".".join(map(str, error["loc"])) + ": " if error["loc"] else ""
    # A missing key's "input" is the whole line, as is broken JSON's.
    shown = "" if error["type"] in {"missing", "json_invalid"} else f" (found {error['input']!r})"
    # Each line is parsed alone, so the parser's own "line 1" would contradict the file's.
    return f"{place}{error['msg'].replace('at line 1 column', 'at column')}{shown}"
