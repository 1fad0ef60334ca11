"""Statements as the data are made of them: the columns that are used, in as little memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from rldf_ray.records import STATEMENT_SCHEMA, Label, TopicKind
from rldf_ray.storage.run_folder import RunFolder


class Judged(Protocol):
    """What filters and tables read of a statement."""

    @property
    def topic_id(self) -> str: ...
    @property
    def bias_type(self) -> str: ...
    @property
    def kind(self) -> TopicKind: ...
    @property
    def clue_shown(self) -> bool: ...
    @property
    def role(self) -> int: ...
    @property
    def text(self) -> str: ...
    @property
    def finish_reason(self) -> str: ...
    @property
    def label(self) -> Label | None: ...
    @property
    def label_score(self) -> float | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedStatement:
    """A statement without what the data have no use for."""

    topic_id: str
    bias_type: str
    kind: TopicKind
    clue_shown: bool
    role: int
    text: str
    finish_reason: str
    label: Label | None
    label_score: float | None


_SCORES = ("score", "expected_score", "label_source")
_SAME = ("topic_id", "bias_type", "kind", "clue_shown", "role", "text", "finish_reason", "label")
_COLUMNS = pa.schema([STATEMENT_SCHEMA.field(name) for name in (*_SAME, *_SCORES)])


def judged_statements(folder: RunFolder) -> Iterator[JudgedStatement]:
    """The statements of a run, in their order.

    Raises:
        RunFolderError, UnreadableFileError: there are none, or not as the debates write them.
    """
    # A million rows have a few thousand topics among them.
    known: dict[str, str] = {}
    for batch in folder.read_batches("data/transcripts.parquet", _COLUMNS):
        for row in batch.to_pylist():
            score, expected, source = (row.pop(name) for name in _SCORES)
            for name in ("topic_id", "bias_type", "kind", "finish_reason"):
                row[name] = known.setdefault(row[name], row[name])
            yield JudgedStatement(**row, label_score=expected if source == "expected" else score)
