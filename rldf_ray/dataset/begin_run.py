"""A run folder that begins with one's own topics, transcripts or pairs, at a later stage.

What was given counts as finished, so that the single-stage commands go on from there:

    topics -> `rldf debate`        transcripts -> `rldf data`        pairs -> `rldf train sft`

Rows that repeat an item or a held-out topic the run will be evaluated on are left out, as such
topics are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import UNSET

from rldf_ray.cluster.environment import versions
from rldf_ray.cluster.provenance import source_commit
from rldf_ray.dataset import DatasetError
from rldf_ray.dataset.apart import Apart, Listed
from rldf_ray.dataset.given_files import checked_rows
from rldf_ray.dataset.given_pairs import GivenPairs
from rldf_ray.dataset.given_transcripts import DebateCounts, GivenTranscripts
from rldf_ray.dataset.imported import (
    PairRow,
    TranscriptRow,
    bias_type_problem,
    without,
)
from rldf_ray.dataset.preference_data import describe_data, prompts_table
from rldf_ray.dataset.repeats import Repeat, Repeats
from rldf_ray.plan import Plan
from rldf_ray.records import (
    PAIR_SCHEMA,
    SFT_SCHEMA,
    STATEMENT_SCHEMA,
    TOPIC_SCHEMA,
    Topic,
    table_of,
)
from rldf_ray.storage.results import Result, TopicsResult, as_manifest
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.storage.unfinished import begun_before, unfinished
from rldf_ray.topics.bias_type import bias_type
from rldf_ray.topics.overlap import EvaluationTexts, Overlap
from rldf_ray.topics.writer import by_split, overlaps_with_held_out, seed_topics


@dataclass(frozen=True)
class Given:
    """The files of an import: topics alone, or transcripts or pairs with or without topics."""

    topics: Path | None = None
    transcripts: Path | None = None
    pairs: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Imported:
    """What an import left in the folder, and the command that goes on.

    Attributes:
        overlaps_dropped: rows of the files that repeat an evaluation item or a held-out topic, by
            how they do.
        topics_merged: given topics that are an earlier one again.
        repeats: statements or pairs that repeat an earlier row or contradict it; they are kept.
        pairs_left_out: those beyond the plan's `data.min_gap`, `pairs_per_topic`, `max_pairs`.
    """

    topics: int
    statements: int
    pairs: int
    next_command: str
    overlaps_dropped: Mapping[Overlap, int]
    topics_merged: int = 0
    repeats: Mapping[Repeat, int] = field(default_factory=dict)
    pairs_left_out: int = 0


def import_run(plan: Plan, folder: RunFolder, given: Given, evaluated: EvaluationTexts) -> Imported:
    """Begin a run in `folder`; every row of every file is checked before anything is written.

    Args:
        evaluated: what the run is evaluated on; rows that repeat it are left out.

    Raises:
        DatasetError: nothing, too much or something wrong was given; or the folder has a run.
    """
    _check_new(folder)
    if given.transcripts and given.pairs:
        raise DatasetError("give --transcripts or --pairs, not both: pairs are made of transcripts")
    if not (given.topics or given.transcripts or given.pairs):
        raise DatasetError("nothing to import: give --topics, --transcripts or --pairs")
    if given.transcripts and plan.data.pairing != "same_topic":
        raise DatasetError(
            f"data.pairing={plan.data.pairing} with --transcripts: the prompts would name "
            "identities of the plan's bias types, not those who said it; allowed: same_topic"
        )
    apart = Apart(evaluated)
    listed = apart.topics(given.topics, plan) if given.topics else None
    if given.transcripts:
        return _begin_with_transcripts(plan, folder, given.transcripts, listed, apart)
    if given.pairs:
        return _begin_with_pairs(plan, folder, given.pairs, listed, apart)
    assert listed is not None
    with _new(folder):
        _begin(plan, folder, listed.topics, apart, listed)
    return Imported(
        topics=len(listed.topics),
        statements=0,
        pairs=0,
        next_command=f"rldf debate {folder.where}",
        overlaps_dropped=apart.dropped,
        topics_merged=listed.merged,
    )


def _check_new(folder: RunFolder) -> None:
    if begun_before(folder):
        raise DatasetError(f"{folder.where} holds a run already: import into a new folder")


@contextmanager
def _new(folder: RunFolder) -> Iterator[None]:
    """The folder for this import alone, which can be given again wherever it is cut off."""
    with folder.locked():
        # Another import may have ended while this one read its files.
        _check_new(folder)
        with unfinished(folder):
            yield


def _begin_with_transcripts(
    plan: Plan, folder: RunFolder, path: Path, listed: Listed | None, apart: Apart
) -> Imported:
    rows = checked_rows(path, TranscriptRow, partial(bias_type_problem, plan=plan))
    given = GivenTranscripts(rows, plan, folder.root)
    prompted = without(_prompted(plan, listed, apart), given.topics.values())
    debated = apart.debated(path, given, by_split(prompted, "eval"))
    topics = [*debated, *prompted]
    _check_prompts(topics, plan)
    counts = DebateCounts()
    with _new(folder):
        _begin(plan, folder, topics, apart, listed, given.repeats)
        statements = given.statements([topic.topic_id for topic in debated])
        folder.write_batches(
            "data/transcripts.parquet", STATEMENT_SCHEMA, map(counts.counted, statements)
        )
        _finish(plan, folder, counts.result())
    return Imported(
        topics=len(topics),
        statements=counts.statements,
        pairs=0,
        next_command=f"rldf data {folder.where}",
        overlaps_dropped=apart.dropped,
        topics_merged=listed.merged if listed else 0,
        repeats=given.repeats.counts(),
    )


def _begin_with_pairs(
    plan: Plan, folder: RunFolder, path: Path, listed: Listed | None, apart: Apart
) -> Imported:
    topics = without(_prompted(plan, listed, apart), [])
    rows = apart.rows(path, PairRow, by_split(topics, "eval"))
    given = GivenPairs(rows, folder.root, plan.data)
    if not given.size:
        raise DatasetError(
            f"{path}: data.min_gap={plan.data.min_gap:g} leaves none of its {given.read} pairs"
        )
    _check_prompts(topics, plan)
    quality = given.quality()
    with _new(folder):
        _begin(plan, folder, topics, apart, listed, given.repeats)
        _finish(plan, folder, DebateCounts().result())
        folder.write_batches("data/sft.parquet", SFT_SCHEMA, given.examples(plan.data.max_sft))
        folder.write_batches("data/pairs.parquet", PAIR_SCHEMA, given.pairs())
        folder.write_table("data/prompts.parquet", prompts_table(topics))
        _finish(plan, folder, describe_data(folder, plan, quality, imported=path.name))
    return Imported(
        topics=len(topics),
        statements=0,
        pairs=given.size,
        next_command=f"rldf train sft {folder.where}",
        overlaps_dropped=apart.dropped,
        topics_merged=listed.merged if listed else 0,
        repeats=given.repeats.counts(),
        pairs_left_out=given.read - given.size,
    )


def _prompted(plan: Plan, listed: Listed | None, apart: Apart) -> Sequence[Topic]:
    """Topics for PPO and evaluation: the given ones, or else the seeds of the bias types."""
    if listed is not None:
        return listed.topics
    abouts = [bias_type(name) for name in plan.bias_types]
    seeds = [
        *(topic for about in abouts for topic in seed_topics(about, "opinion", plan)),
        *(topic for about in abouts for topic in seed_topics(about, "judgement", plan)),
    ]
    kept = [topic for topic in seeds if apart.evaluated.overlap(topic) is None]
    return [t for t, o in zip(kept, overlaps_with_held_out(kept), strict=True) if o is None]


def _check_prompts(topics: Iterable[Topic], plan: Plan) -> None:
    splits = {topic.split for topic in topics}
    for split in (*(("ppo",) if "ppo" in plan.train.after else ()), "eval"):
        if split not in splits:
            raise DatasetError(
                f"no topic is left for the {split} split: give more with --topics, or say their "
                "`split` there"
            )


def _begin(
    plan: Plan,
    folder: RunFolder,
    topics: Sequence[Topic],
    apart: Apart,
    listed: Listed | None,
    repeats: Repeats | None = None,
) -> None:
    folder.write_text("plan.yaml", plan.to_yaml())
    folder.write_table("data/topics.parquet", table_of(topics, TOPIC_SCHEMA))
    counts = {name: _counts([t for t in topics if t.bias_type == name]) for name in plan.bias_types}
    dropped = {str(kind): number for kind, number in apart.dropped.items()}
    result = TopicsResult(
        topics=counts,
        imported_overlaps_dropped=dropped,
        imported_topics_merged=listed.merged if listed else UNSET,
        imported_repeats={str(kind): number for kind, number in repeats.counts().items()}
        if repeats
        else UNSET,
    )
    _finish(plan, folder, result)


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


def _finish(plan: Plan, folder: RunFolder, result: Result) -> None:
    nothing = {
        "seconds": 0.0,
        "peak_pss_gib": 0.0,
        "versions": versions(),
        "commit": source_commit(),
    }
    folder.finish(result.STAGE, plan.digest(), {**nothing, **as_manifest(result)})
