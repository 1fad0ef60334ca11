"""What files say, whatever wrote them: one hash a file, without what no two runs have in common."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml

VOLATILE = {
    # How long something took, and how much memory, is the machine's doing.
    "seconds",
    "think_seconds",
    "answer_seconds",
    "seconds_an_item",
    "start_seconds",
    "idle_share",
    "peak_pss_gib",
    # When, where and with which packages it was done.
    "created",
    "finished_at",
    "machine",
    "versions",
    "commit",
    # The test's own command line.
    "command",
    # Hashes and sizes of tables as pyarrow's version lays them out; their content is hashed.
    "files",
    "bytes",
}
"""Members of JSON objects that are left out, at any depth."""
COLUMNS = "seconds"
"""How the names begin of columns (in LaTeX of rows, too) of tables that are left out."""
QUIET = re.compile(
    r'<p class="quiet">Run .*?</p>|<h2>Versions, machine, plan</h2>.*?<pre>', re.DOTALL
)
"""When and with what a report was made."""
STAGE = re.compile(r'^(<tr><th scope="row">\w+</th>)(?:<td>(?:(?!</td>).)*</td>){4}$', re.MULTILINE)
"""Seconds, waits, idle cores and memory of a stage in a report: alone on their line."""
DRAWN = {".png", ".svg"}
"""Pictures, of which only the names count: matplotlib's versions draw the same data differently."""
SKIPPED = ("logs/", ".lock")
"""What programs say of themselves, and an empty file."""
UNORDERED = ("journal/",)
"""Lines that are written as answers come."""
NUMBER = re.compile(r"-?\d+\.\d+(e[-+]?\d+)?")


def hashes_of(folder: Path, case: str) -> dict[str, str]:
    """A hash for every file below `folder`, by its case and its name."""
    found = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = path.relative_to(folder).as_posix()
        if not name.startswith(SKIPPED) and not path.name.startswith("."):
            found[f"{case}/{name}"] = hash_of(content_of(path, name, folder))
    return found


def hash_of(content: Any) -> str:
    """Of a JSON-able value; floats count to their tenth digit, as libraries sum differently."""
    text = json.dumps(_rounded(content), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def content_of(path: Path, name: str, folder: Path) -> Any:
    """What the file says, as a JSON-able value."""
    if path.suffix in DRAWN:
        return None
    if path.suffix == ".parquet":
        return _table(path)
    # A path that a file tells begins with the folder of this run of the test.
    text = path.read_text(encoding="utf-8").replace(str(folder), "RUN")
    text = text.replace(str(folder.parent), "TMP")
    match path.suffix:
        case ".json":
            return _stable(json.loads(text))
        case ".jsonl":
            lines = [_stable(json.loads(line)) for line in text.splitlines()]
            unordered = name.startswith(UNORDERED)
            return sorted(lines, key=json.dumps) if unordered else lines
        case ".yaml":
            return yaml.safe_load(text)
        case ".csv":
            return list(_without_columns(list(csv.reader(io.StringIO(text)))))
        case ".html":
            return STAGE.sub(r"\1", QUIET.sub("", text))
        case ".md":
            return _without_columns_in(text, "|")
        case ".tex":
            return _without_columns_in(text, "&")
    return text


def _table(path: Path) -> Any:
    """Columns, their types and notes, and all rows in their order."""
    table = pq.read_table(path)
    notes = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    columns = [[field.name, str(field.type), field.nullable] for field in table.schema]
    return {"columns": columns, "notes": notes, "rows": _stable(table.to_pylist())}


def _stable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _stable(v) for key, v in value.items() if key not in VOLATILE}
    return [_stable(v) for v in value] if isinstance(value, list) else value


def _rounded(value: Any) -> Any:
    match value:
        case dict():
            return {str(key): _rounded(v) for key, v in value.items()}
        case list() | tuple():
            return [_rounded(v) for v in value]
        case float():
            return f"{value:.10g}"
        case str() if NUMBER.fullmatch(value):
            return f"{float(value):.10g}"
    return value


def _without_columns_in(text: str, mark: str) -> list[Any]:
    """The lines; those of tables as their cells, without what is left out."""
    found: list[Any] = []
    rows: list[list[str]] = []
    for line in [*text.splitlines(), ""]:
        if mark in line:
            rows.append([cell.strip(" ").removesuffix(r" \\") for cell in line.split(mark)])
            continue
        found += [*_without_columns(rows), line]
        rows = []
    return found


def _without_columns(rows: Sequence[Sequence[str]]) -> Iterator[list[str]]:
    """Rows of a table, the first of them its head; a head may also stand before a row."""
    if rows:
        left = [place for place, name in enumerate(rows[0]) if not name.startswith(COLUMNS)]
        kept = (row for row in rows if not row[0].startswith(COLUMNS))
        yield from ([row[i] for i in left if i < len(row)] for row in kept)
