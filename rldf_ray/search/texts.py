"""One's own texts as passages: folders of .jsonl, .txt, .md and .parquet files, .gz too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, field_validator, model_validator

from rldf_ray.search.backend import SearchError
from rldf_ray.storage.folders import visible
from rldf_ray.storage.given_text import given_text
from rldf_ray.storage.json_lines import parsed_lines, refuse
from rldf_ray.storage.parquet import given_batches

WORDS = 200
"""A passage of a text file has so many at most, and ends where a paragraph or a sentence does, if
it can. A row of a table is a passage, however long it is."""
CUT = "2"
"""Another one for every other way to make passages of the same files."""
_SENTENCE_END = re.compile(r"[.!?…。！？][\"'”’)\]]*$")  # noqa: RUF001 - full-width ends as well
KINDS = (".jsonl", ".txt", ".md", ".parquet")


@dataclass(frozen=True, slots=True)
class Passage:
    title: str
    text: str
    url: str = ""


class _Line(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, coerce_numbers_to_str=True)

    text: str
    title: str = ""
    url: str = Field("", validation_alias=AliasChoices("url", "link"))

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {name: v for name, v in given.items() if name == "text" or v is not None}

    @field_validator("text")
    @classmethod
    def _some(cls, text: str) -> str:
        if not text.strip():
            raise ValueError("nothing in it")
        return text


def text_files(path: Path) -> list[Path]:
    """A file of texts, or those of a folder, by name.

    Raises:
        SearchError: there is none, or it cannot be looked for.
    """
    try:
        if path.is_dir():
            files = [file for file in visible(path) if _kind(file) and not file.is_dir()]
        elif path.exists():
            files = [path]
        else:
            raise SearchError(f"{path}: no such file or folder")
    except OSError as error:
        raise unreadable(path, error) from error
    if not files:
        raise SearchError(
            f"{path}: holds none of {', '.join(KINDS)} (.gz too); files in folders of it do not "
            "count"
        )
    return files


def passages_in(path: Path) -> Iterator[Passage]:
    """The passages of a file of texts, or of a folder's files.

    Raises:
        SearchError: there is no text, or a file cannot be read.
        UserError: a file is not what its name says; names the file, and the line or row.
    """
    return passages_of(text_files(path))


def passages_of(files: Sequence[Path]) -> Iterator[Passage]:
    """The passages of files; raises as `passages_in`."""
    empty = True
    for file in files:
        try:
            for passage in _passages(file):
                empty = False
                yield passage
        except OSError as error:
            raise unreadable(file, error) from error
    if empty:
        raise SearchError(f"no passage: there is no text in {', '.join(map(str, files[:10]))}")


def unreadable(path: Path, error: OSError) -> SearchError:
    """What to raise about a file or folder that the system does not let us read."""
    return SearchError(
        f"{path}: cannot be read ({error.strerror or error}); have the right to it, or name another"
    )


def _kind(file: Path) -> str | None:
    suffix = Path(file.name.removesuffix(".gz")).suffix
    return suffix if suffix in KINDS else None


def _passages(file: Path) -> Iterator[Passage]:
    kind = _kind(file)
    if kind == ".jsonl":
        rows, problems = parsed_lines(file, _Line)
        refuse(file, problems)
        yield from (Passage(row.title, row.text, row.url) for row in rows.values())
    elif kind == ".parquet":
        yield from _parquet(file)
    elif kind is not None:
        yield from _text(file)
    else:
        raise SearchError(
            f"{file}: neither a corpus of `rldf corpus build`, nor does its name end in one of "
            f"{', '.join(KINDS)} (.gz too)"
        )


def _parquet(file: Path) -> Iterator[Passage]:
    """Rows without a text are passed over: a table has such cells where a line would be missing."""
    for batch in given_batches(file, ["text"], also=["title", "url", "link"]):
        held = batch.schema.field("text").type
        if not _is_text(held):
            raise SearchError(f"{file}: the column 'text' holds {held}; allowed: string")
        for row in batch.to_pylist():
            if row["text"] and row["text"].strip():
                url = row.get("url") or row.get("link") or ""
                yield Passage(str(row.get("title") or ""), row["text"], str(url))


def _is_text(held: pa.DataType) -> bool:
    if pa.types.is_dictionary(held):
        held = held.value_type
    # A column of nothing but nulls has a type of its own.
    return any(of(held) for of in (pa.types.is_string, pa.types.is_large_string, pa.types.is_null))


def _text(file: Path) -> Iterator[Passage]:
    title = Path(file.name.removesuffix(".gz")).stem
    held: list[str] = []
    number = 0
    for paragraph in re.split(r"\n\s*\n", given_text(file)):
        for part in _parts(paragraph):
            words = len(part.split())
            if held and number + words > WORDS:
                yield Passage(title, "\n\n".join(held))
                held, number = [], 0
            held.append(part)
            number += words
    if held:
        yield Passage(title, "\n\n".join(held))


def _parts(paragraph: str) -> Iterator[str]:
    """A paragraph as it is, or a long one in parts: whole sentences where half a part is left."""
    words = list(re.finditer(r"\S+", paragraph))
    begin = 0
    while begin < len(words):
        end = min(begin + WORDS, len(words))
        if end < len(words):
            whole = range(end, begin + WORDS // 2, -1)
            end = next((n for n in whole if _SENTENCE_END.search(words[n - 1][0])), end)
        yield paragraph[words[begin].start() : words[end - 1].end()]
        begin = end
