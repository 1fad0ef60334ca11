"""A run folder that begins with one's own topics, transcripts or pairs, at a later stage.

What was given counts as finished, so that the single-stage commands go on from there:

    topics -> `rldf debate`        transcripts -> `rldf data`        pairs -> `rldf train sft`
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from rldf_ray.dataset import DatasetError
from rldf_ray.dataset.imported import (
    PairRow,
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
    """What an import left in the folder, and the command that goes on."""

    topics: int
    statements: int
    pairs: int
    next_command: str


def import_run(plan: Plan, folder: RunFolder, given: Given) -> Imported:
    """Begin a run in `folder`; every row of every file is checked before anything is written.

    Raises:
        DatasetError: nothing, too much or something wrong was given; or the folder has a run.
    """
    if (folder.root / "plan.yaml").exists():
        raise DatasetError(f"{folder.root} holds a run already: import into a new folder")
    if given.transcripts and given.pairs:
        raise DatasetError("give --transcripts or --pairs, not both: pairs are made of transcripts")
    listed = topics_from(read_rows(given.topics, TopicRow), plan) if given.topics else None
    if given.transcripts:
        return _begin_with_transcripts(plan, folder, given.transcripts, listed)
    if given.pairs:
        return _begin_with_pairs(plan, folder, given.pairs, listed)
    if listed is None:
        raise DatasetError("nothing to import: give --topics, --transcripts or --pairs")
    with folder.locked():
        _begin(plan, folder, listed)
    return Imported(len(listed), 0, 0, f"rldf debate {folder.root}")


def _begin_with_transcripts(
    plan: Plan, folder: RunFolder, path: Path, listed: Sequence[Topic] | None
) -> Imported:
    rows = read_rows(path, TranscriptRow)
    debated = debated_topics(rows)
    topics = [*debated, *without(_prompted(plan, listed), debated)]
    statements = statements_from(rows, plan)
    _check_prompts(topics)
    with folder.locked():
        _begin(plan, folder, topics)
        folder.write_table("data/transcripts.parquet", table_of(statements, STATEMENT_SCHEMA))
        _finish_debates(plan, folder, statements)
    return Imported(len(topics), len(statements), 0, f"rldf data {folder.root}")


def _begin_with_pairs(
    plan: Plan, folder: RunFolder, path: Path, listed: Sequence[Topic] | None
) -> Imported:
    pairs = pairs_from(read_rows(path, PairRow))
    topics = without(_prompted(plan, listed), [])
    _check_prompts(topics)
    with folder.locked():
        _begin(plan, folder, topics)
        _finish_debates(plan, folder, [])
        facts = write_data(folder, plan, _of_pairs(plan, pairs, topics))
        _finish(plan, folder, "data", {**facts, "imported": path.name})
    return Imported(len(topics), 0, pairs.num_rows, f"rldf train sft {folder.root}")


def _of_pairs(plan: Plan, pairs: pa.Table, topics: Iterable[Topic]) -> PreferenceData:
    return PreferenceData(
        sft=sft_of_pairs(pairs, plan.data),
        pairs=pairs,
        prompts=prompts_table(topics),
        quality=quality_of(0, {}, sides_of(pairs), pairs),
    )


def _prompted(plan: Plan, listed: Sequence[Topic] | None) -> Sequence[Topic]:
    """Topics for PPO and evaluation: the given ones, or else the seeds of the bias types."""
    if listed is not None:
        return listed
    abouts = [bias_type(name) for name in plan.bias_types]
    return [
        *(topic for about in abouts for topic in seed_topics(about, "opinion", plan)),
        *(topic for about in abouts for topic in seed_topics(about, "judgement", plan)),
    ]


def _check_prompts(topics: Iterable[Topic]) -> None:
    splits = {topic.split for topic in topics}
    for split in ("ppo", "eval"):
        if split not in splits:
            raise DatasetError(
                f"no topic is left for the {split} split: give more with --topics, or say their "
                "`split` there"
            )


def _begin(plan: Plan, folder: RunFolder, topics: Sequence[Topic]) -> None:
    folder.write_text("plan.yaml", plan.to_yaml())
    folder.write_table("data/topics.parquet", table_of(topics, TOPIC_SCHEMA))
    counts = {name: _counts([t for t in topics if t.bias_type == name]) for name in plan.bias_types}
    _finish(plan, folder, "topics", {"topics": counts})


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
