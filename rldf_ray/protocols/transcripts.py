"""Statements of finished debates on disk, so that memory holds the debates under way alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pyarrow as pa

from rldf_ray.records import STATEMENT_SCHEMA, Statement
from rldf_ray.storage.kept import Kept

ENDED_DEBATES = "journal/debates.jsonl"
"""In a run folder, while debates are held."""
ROWS_AT_ONCE = 4096

_debate = msgspec.json.Decoder(list[Statement])


class Transcripts:
    """A scratch file of finished debates, which end in any order and are read in the plan's.

    Args:
        path: begun anew; after a kill the journal of calls makes it again.
        debates: how many there will be.
    """

    def __init__(self, path: Path, debates: int) -> None:
        self._kept = Kept(path, debates)

    def keep(self, place: int, statements: Sequence[Statement]) -> None:
        """Write down the statements of the debate at `place`."""
        self._kept.keep(place, list(statements))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All statements, debates in the plan's order; a debate that was not kept has none."""
        rows: list[dict[str, object]] = []
        for statements in self._kept.values():
            rows += statements
            if len(rows) >= ROWS_AT_ONCE:
                yield pa.RecordBatch.from_pylist(rows, schema=STATEMENT_SCHEMA)
                rows = []
        yield pa.RecordBatch.from_pylist(rows, schema=STATEMENT_SCHEMA)

    def close(self) -> None:
        self._kept.close()


def ended_so_far(path: Path) -> list[Statement]:
    """The statements in a scratch file that another program writes, in the order of its debates."""
    statements = []
    with path.open("rb") as file:
        for line in file:
            try:
                statements += _debate.decode(line)
            except msgspec.DecodeError:
                continue  # torn, or not written whole yet
    return statements


@dataclass
class StatementCounts:
    """What a report says of the statements, counted as they come."""

    statements: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    label_sources: Counter[str] = field(default_factory=Counter)

    def add(self, statements: Sequence[Statement]) -> None:
        for statement in statements:
            self.statements += 1
            self.label_sources[statement.label_source] += 1
            if statement.failure is not None:
                self.failures[statement.failure.partition(":")[0]] += 1
            if statement.rank is None:
                self.failures["not ranked"] += 1
