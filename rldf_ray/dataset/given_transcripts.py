"""Transcripts that people give, as statements: read once, set aside, labelled, written.

    rows --> checked --> aside (a nameless file) --> labels of whole rounds --> statements

Rows of a round may stand anywhere in the file, so labels come when all have been read.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from more_itertools import batched

from rldf_ray.dataset.aside import BATCH, Aside
from rldf_ray.dataset.imported import IMPORTED, TranscriptRow
from rldf_ray.dataset.repeats import Hashes, Repeats
from rldf_ray.plan import Plan
from rldf_ray.records import STATEMENT_SCHEMA, Label, LabelSource, Topic, context_of, topic_id
from rldf_ray.referee.labels import Threshold, label_round
from rldf_ray.storage.results import DebatesResult

LABEL_SOURCE: LabelSource = "said"
NO_LABEL = "no label: equal scores in the round"


class GivenTranscripts:
    """The statements of given rows, on opinion topics.

    Args:
        near: where they will be written.

    Attributes:
        topics: by id, in the rows' order; what was debated is in the debate split.
        rows_on: numbers of rows by topic.

    Raises:
        what the rows raise.
    """

    def __init__(self, rows: Iterable[TranscriptRow], plan: Plan, near: Path) -> None:
        self.topics: dict[str, Topic] = {}
        self.rows_on: Counter[str] = Counter()
        self.repeats = Repeats()
        self._aside = Aside(STATEMENT_SCHEMA, near)
        self._rounds = _Rounds(Threshold(plan.referee.threshold_kind, plan.referee.threshold))
        run_id = plan.digest()
        for some in batched(rows, BATCH):
            for row in some:
                self._add(row)
            self._aside.add(_statements(some, run_id))

    def _add(self, row: TranscriptRow) -> None:
        name = topic_id(row.bias_type, row.topic)
        self.topics[name] = _topic(row)
        self.rows_on[name] += 1
        self.repeats.add((row.bias_type, row.topic, row.text), (row.score, row.label))
        self._rounds.add((row.bias_type, row.topic, row.debate, row.round), row.score)

    def statements(self, topics: Collection[str]) -> Iterator[pa.RecordBatch]:
        """Those on the topics with these ids, in the rows' order, with their labels.

        A label that is not given is by score within the round, where the plan's threshold tells.
        """
        labels = pa.array(self._rounds.labels(), pa.string())
        wanted = pa.array(topics, pa.string())
        place = 0
        for batch in self._aside.batches():
            by_score = labels.slice(place, batch.num_rows)
            place += batch.num_rows
            label = pc.coalesce(batch["label"], by_score)
            failure = pc.if_else(
                pc.is_null(label), pa.scalar(NO_LABEL), pa.scalar(None, pa.string())
            )
            columns = {**dict(zip(batch.schema.names, batch.columns, strict=True)),
                       "label": label, "failure": failure}  # fmt: skip
            labelled = pa.RecordBatch.from_pydict(columns, schema=STATEMENT_SCHEMA)
            yield labelled.filter(pc.is_in(labelled["topic_id"], wanted))


class DebateCounts:
    """What the manifest of the debates says of statements that pass by."""

    def __init__(self) -> None:
        self.statements = 0
        self._debates: set[str] = set()
        self._unlabelled = 0

    def counted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        self.statements += batch.num_rows
        self._debates.update(batch["debate_id"].unique().to_pylist())
        self._unlabelled += batch.num_rows - batch["failure"].null_count
        return batch

    def result(self) -> DebatesResult:
        return DebatesResult(
            debates=len(self._debates),
            statements=self.statements,
            failures={"no label": self._unlabelled} if self._unlabelled else {},
            label_sources={LABEL_SOURCE: self.statements} if self.statements else {},
        )


class _Rounds:
    """Labels by score, of rows that come in any order: what is known of each row are numbers."""

    def __init__(self, threshold: Threshold) -> None:
        self._threshold = threshold
        self._keys = Hashes()
        self._scores = array("d")

    def add(self, key: tuple[object, ...], score: float) -> None:
        if self._threshold.kind == "relative":
            self._keys.add(*key)
        self._scores.append(score)

    def labels(self) -> list[Label | None]:
        if self._threshold.kind == "absolute":
            return label_round(self._scores, self._threshold)
        labels: list[Label | None] = [None] * len(self._scores)
        rounds = self._keys.groups()
        order = np.argsort(rounds, kind="stable")
        ends = np.flatnonzero(np.diff(rounds[order])) + 1
        for places in np.split(order, ends):
            scores = [self._scores[place] for place in places]
            for place, label in zip(places, label_round(scores, self._threshold), strict=True):
                labels[place] = label
        return labels


def _topic(row: TranscriptRow) -> Topic:
    return Topic(
        topic_id=topic_id(row.bias_type, row.topic),
        bias_type=row.bias_type,
        kind="opinion",
        text=row.topic,
        origin="seed",
        split="debate",
    )


def _statements(rows: Collection[TranscriptRow], run_id: str) -> pa.RecordBatch:
    """Columns of statements, whose labels are those that were given."""
    topics = [_topic(row) for row in rows]
    same = {
        "run_id": run_id,
        "kind": "opinion",
        "clue_shown": False,
        "expected_score": None,
        "rank": None,
        "label_source": LABEL_SOURCE,
        "failure": None,
        "referee_kind": IMPORTED,
        "debater_model": IMPORTED,
        "debater_revision": "",
        "referee_model": IMPORTED,
        "referee_revision": "",
        "prompt_tokens": 0,
        "cached_tokens": 0,
        "generated_tokens": 0,
        "seed": 0,
    }
    given = ("bias_type", "round", "role", "identity", "text", "finish_reason", "score", "label")
    columns: dict[str, list[Any]] = {
        **{name: [value] * len(rows) for name, value in same.items()},
        **{name: [getattr(row, name) for row in rows] for name in given},
        "topic_id": [topic.topic_id for topic in topics],
        "debate_id": [
            f"{topic.topic_id}-{row.debate}" if row.debate else topic.topic_id
            for topic, row in zip(topics, rows, strict=True)
        ],
        "context": [context_of(topic, False).text for topic in topics],
    }
    return pa.RecordBatch.from_pydict(columns, schema=STATEMENT_SCHEMA)
