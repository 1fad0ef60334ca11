"""A run folder that begins with one's own topics, transcripts or pairs, at a later stage.

What was given counts as finished, so that the single-stage commands go on from there:

    topics -> `rldf debate`        transcripts -> `rldf data`        pairs -> `rldf train sft`

Rows that repeat an item the run will be evaluated on are left out, as such topics are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from rldf_ray.dataset import DatasetError
from rldf_ray.dataset.imported import (
    PairRow,
    R,
    TopicRow,
    TranscriptRow,
    debated_topics,
    pairs_from,
    read_rows,
    statements_from,
    topics_from,
    without,
)
from rldf_ray.dataset.statistics import quality_of, sides_of
from rldf_ray.debate.overlap import EvaluationTexts, Overlap
from rldf_ray.debate.topics import seed_topics
from rldf_ray.environment import versions
from rldf_ray.plan import Plan
from rldf_ray.preference_data import PreferenceData, prompts_table, sft_of_pairs, write_data
from rldf_ray.prompts import bias_type
from rldf_ray.records import STATEMENT_SCHEMA, TOPIC_SCHEMA, Statement, Topic, table_of
from rldf_ray.storage import RunFolder


@dataclass(frozen=True)
class Given:
    """The files of an import: topics alone, or transcripts or pairs with or without topics."""

    topics: Path | None = None
    transcripts: Path | None = None
    pairs: Path | None = None


@dataclass(frozen=True)
class Imported:
    """What an import left in the folder, and the command that goes on.

    Attributes:
        overlaps_dropped: rows of the files that repeat an evaluation item, by how they do.
    """

    topics: int
    statements: int
    pairs: int
    next_command: str
    overlaps_dropped: Mapping[Overlap, int]


@dataclass(frozen=True)
class _Apart:
    """Reads files, and leaves out the rows that repeat what the run is evaluated on."""

    evaluated: EvaluationTexts
    dropped: Counter[Overlap] = field(default_factory=Counter)

    def rows(self, path: Path, model: type[R]) -> list[R]:
        kept: list[R] = []
        for row in read_rows(path, model):
            overlap = self.evaluated.overlap_of(*row.asked)
            if overlap is None:
                kept.append(row)
            else:
                self.dropped[overlap] += 1
        if not kept:
            raise DatasetError(
                f"{path}: every row repeats an item that the run is evaluated on: give others, or "
                "name another set in evaluate.bbq"
            )
        return kept


def import_run(plan: Plan, folder: RunFolder, given: Given) -> Imported:
    """Begin a run in `folder`; every row of every file is checked before anything is written.

    Raises:
        DatasetError: nothing, too much or something wrong was given; or the folder has a run.
    """
    from rldf_ray.evaluate.contamination import texts_to_avoid

    if folder.fetched("plan.yaml").exists():
        raise DatasetError(f"{folder.where} holds a run already: import into a new folder")
    if given.transcripts and given.pairs:
        raise DatasetError("give --transcripts or --pairs, not both: pairs are made of transcripts")
    if not (given.topics or given.transcripts or given.pairs):
        raise DatasetError("nothing to import: give --topics, --transcripts or --pairs")
    apart = _Apart(texts_to_avoid(plan))
    listed = topics_from(apart.rows(given.topics, TopicRow), plan) if given.topics else None
    if given.transcripts:
        return _begin_with_transcripts(plan, folder, given.transcripts, listed, apart)
    if given.pairs:
        return _begin_with_pairs(plan, folder, given.pairs, listed, apart)
    assert listed is not None
    with folder.locked():
        _begin(plan, folder, listed, apart)
    return Imported(len(listed), 0, 0, f"rldf debate {folder.where}", apart.dropped)


def _begin_with_transcripts(
    plan: Plan, folder: RunFolder, path: Path, listed: Sequence[Topic] | None, apart: _Apart
) -> Imported:
    rows = apart.rows(path, TranscriptRow)
    debated = debated_topics(rows)
    topics = [*debated, *without(_prompted(plan, listed, apart), debated)]
    statements = statements_from(rows, plan)
    _check_prompts(topics)
    with folder.locked():
        _begin(plan, folder, topics, apart)
        folder.write_table("data/transcripts.parquet", table_of(statements, STATEMENT_SCHEMA))
        _finish_debates(plan, folder, statements)
    go_on = f"rldf data {folder.where}"
    return Imported(len(topics), len(statements), 0, go_on, apart.dropped)


def _begin_with_pairs(
    plan: Plan, folder: RunFolder, path: Path, listed: Sequence[Topic] | None, apart: _Apart
) -> Imported:
    pairs = pairs_from(apart.rows(path, PairRow))
    topics = without(_prompted(plan, listed, apart), [])
    _check_prompts(topics)
    with folder.locked():
        _begin(plan, folder, topics, apart)
        _finish_debates(plan, folder, [])
        facts = write_data(folder, plan, _of_pairs(plan, pairs, topics))
        _finish(plan, folder, "data", {**facts, "imported": path.name})
    go_on = f"rldf train sft {folder.where}"
    return Imported(len(topics), 0, pairs.num_rows, go_on, apart.dropped)


def _of_pairs(plan: Plan, pairs: pa.Table, topics: Iterable[Topic]) -> PreferenceData:
    return PreferenceData(
        sft=sft_of_pairs(pairs, plan.data),
        pairs=pairs,
        prompts=prompts_table(topics),
        quality=quality_of(0, {}, sides_of(pairs), pairs),
    )


def _prompted(plan: Plan, listed: Sequence[Topic] | None, apart: _Apart) -> Sequence[Topic]:
    """Topics for PPO and evaluation: the given ones, or else the seeds of the bias types."""
    if listed is not None:
        return listed
    abouts = [bias_type(name) for name in plan.bias_types]
    seeds = [
        *(topic for about in abouts for topic in seed_topics(about, "opinion", plan)),
        *(topic for about in abouts for topic in seed_topics(about, "judgement", plan)),
    ]
    return [topic for topic in seeds if apart.evaluated.overlap(topic) is None]


def _check_prompts(topics: Iterable[Topic]) -> None:
    splits = {topic.split for topic in topics}
    for split in ("ppo", "eval"):
        if split not in splits:
            raise DatasetError(
                f"no topic is left for the {split} split: give more with --topics, or say their "
                "`split` there"
            )


def _begin(plan: Plan, folder: RunFolder, topics: Sequence[Topic], apart: _Apart) -> None:
    folder.write_text("plan.yaml", plan.to_yaml())
    folder.write_table("data/topics.parquet", table_of(topics, TOPIC_SCHEMA))
    counts = {name: _counts([t for t in topics if t.bias_type == name]) for name in plan.bias_types}
    dropped = {"imported_overlaps_dropped": dict(apart.dropped)}
    _finish(plan, folder, "topics", {"topics": counts, **dropped})


def _counts(topics: Sequence[Topic]) -> dict[str, Any]:
    return {
        "opinion": sum(topic.kind == "opinion" for topic in topics),
        "judgement": sum(topic.kind == "judgement" for topic in topics),
        "seed": len(topics),
        "written": 0,
        "duplicates_dropped": 0,
        "rejected": 0,
        "rejected_why": {},
    }


def _finish_debates(plan: Plan, folder: RunFolder, statements: Sequence[Statement]) -> None:
    failures = sum(statement.failure is not None for statement in statements)
    facts = {
        "debates": len({statement.debate_id for statement in statements}),
        "statements": len(statements),
        "failures": {"no label": failures} if failures else {},
        "label_sources": dict(Counter(statement.label_source for statement in statements)),
    }
    _finish(plan, folder, "debates", facts)


def _finish(plan: Plan, folder: RunFolder, stage: str, facts: dict[str, Any]) -> None:
    nothing = {"seconds": 0.0, "peak_pss_gib": 0.0, "versions": versions()}
    folder.finish(stage, plan.digest(), {**nothing, **facts})
