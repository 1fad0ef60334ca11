"""Given rows that repeat what a run is evaluated on, and are left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rldf_ray.dataset import DatasetError
from rldf_ray.dataset.given_files import checked_rows
from rldf_ray.dataset.given_transcripts import GivenTranscripts
from rldf_ray.dataset.imported import R, TopicRow, TopicRows, topic_from
from rldf_ray.dataset.preference_data import prompts_table
from rldf_ray.plan import Plan
from rldf_ray.records import Topic
from rldf_ray.topics.overlap import EvaluationTexts, Overlap, topic_texts
from rldf_ray.topics.writer import overlaps_with_held_out


@dataclass(frozen=True)
class Listed:
    """Topics of a file, in its order, each once; `merged` are the rows that repeat one of them."""

    topics: Sequence[Topic]
    merged: int


@dataclass(frozen=True)
class Apart:
    """Leaves out the rows of files that repeat what the run is evaluated on."""

    evaluated: EvaluationTexts
    dropped: Counter[Overlap] = field(default_factory=Counter)

    def topics(self, path: Path, plan: Plan) -> Listed:
        """Topics of a file that repeat no item; nor, unless held out themselves, a held-out one."""
        rows = list(self.rows(path, TopicRow, also=TopicRows(plan).problem))
        topics = {topic.topic_id: topic for topic in (topic_from(row, plan) for row in rows)}
        overlaps = overlaps_with_held_out(list(topics.values()))
        kept = [t for t, o in zip(topics.values(), overlaps, strict=True) if not self._repeats(o)]
        return Listed(kept, merged=len(rows) - len(topics))

    def debated(
        self, path: Path, given: GivenTranscripts, held_out: Sequence[Topic]
    ) -> list[Topic]:
        """Topics of transcripts that repeat no item, and none of `held_out`."""
        others = _asked_about(held_out)
        kept = [
            topic
            for name, topic in given.topics.items()
            if not self._repeats(self.evaluated.overlap_of(topic.text), given.rows_on[name])
            and not self._repeats(others.overlap_of(topic.text), given.rows_on[name])
        ]
        if not kept:
            raise _nothing_left(path)
        return kept

    def rows(
        self,
        path: Path,
        model: type[R],
        held_out: Sequence[Topic] = (),
        also: Callable[[R], str | None] = lambda row: None,
    ) -> Iterator[R]:
        """Rows of a file that repeat no item; and none of `held_out`, or what it is asked in."""
        others = _asked_about(held_out)
        kept = 0
        for row in checked_rows(path, model, also):
            if not self._repeats(row.overlap(self.evaluated)) and not self._repeats(
                row.overlap(others)
            ):
                kept += 1
                yield row
        if not kept:
            raise _nothing_left(path)

    def _repeats(self, overlap: Overlap | None, rows: int = 1) -> bool:
        if overlap is not None:
            self.dropped[overlap] += rows
        return overlap is not None


def _asked_about(topics: Sequence[Topic]) -> EvaluationTexts:
    """Topics, and the prompts they are asked in."""
    asked = prompts_table(topics)["prompt"].to_pylist()
    return topic_texts(topics, [message["content"] for messages in asked for message in messages])


def _nothing_left(path: Path) -> DatasetError:
    return DatasetError(
        f"{path}: every row repeats an item or a held-out topic that the run is evaluated on: give "
        "others, or name another set in evaluate.bbq"
    )
