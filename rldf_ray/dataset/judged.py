"""Statements as the data are made of them: the columns that are used, in as little memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from rldf_ray.records import STATEMENT_SCHEMA, Label, LabelSource, TopicKind
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
    @property
    def label_source(self) -> LabelSource: ...


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
    label_source: LabelSource


def by_said_score(statement: Judged) -> bool:
    """Whether it is labelled by what the referee said, and not by its expectation.

    Where there are both, the plan wants expectations, and the referee gave no probabilities for
    whole rounds. The two scores are not compared: a small model may say 0 to everything.
    """
    return statement.label_source == "said"


_SCORES = ("score", "expected_score")
_SAME = (
    *("topic_id", "bias_type", "kind", "clue_shown", "role", "text", "finish_reason"),
    *("label", "label_source"),
)
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
            score, expected = (row.pop(name) for name in _SCORES)
            for name in ("topic_id", "bias_type", "kind", "finish_reason", "label_source"):
                row[name] = known.setdefault(row[name], row[name])
            counts = expected if row["label_source"] == "expected" else score
            yield JudgedStatement(**row, label_score=counts)
