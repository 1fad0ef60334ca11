"""The debates stage of a protocol that is not multirole: its items are held as a study's are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any

import pyarrow as pa

from rldf_ray.models.one_prompt_refused import OnePromptRefused
from rldf_ray.protocols.hold import hold_each
from rldf_ray.protocols.known import source_named, study_named
from rldf_ray.protocols.multirole import items as instances_of
from rldf_ray.protocols.searches import open_searches
from rldf_ray.protocols.source import (
    SEARCHES,
    SourceError,
    check_source,
    source_items,
    source_settings,
)
from rldf_ray.protocols.study import TURN_SCHEMA, Held, StudyCast
from rldf_ray.records import TOPIC_SCHEMA, Debate, topics_of
from rldf_ray.search.journaled import JournaledSearch
from rldf_ray.stages.run import Run, StageError, tokens_since
from rldf_ray.storage.kept import Kept
from rldf_ray.storage.results import DebatesResult

SOURCE = "source"
"""The folder in a run's own that holds what was held, as a study's folder does."""
ENDED_ITEMS = "journal/items.jsonl"


def instances(run: Run) -> list[Debate]:
    """What is held: the topics of the debates, each with its clue or without, as multirole's.

    Raises:
        StageError: the topics do not suffice.
    """
    topics = topics_of(run.folder.read_table("data/topics.parquet", TOPIC_SCHEMA))
    try:
        return instances_of(topics, run.plan)
    except ValueError as error:
        raise StageError(str(error)) from error


def held_source(run: Run) -> DebatesResult:
    """Every item of the plan's source -> source/data/*.parquet.

    Raises:
        StageError: the topics do not suffice, or are no items of this protocol.
        SearchError: what the settings search cannot be opened.
        ModelError: a model could not answer; nothing is made up in its place.
    """
    before = run.speakers.usage, run.speakers.paid_usage
    name = run.plan.debate.protocol
    source, study = source_named(name), study_named(name)
    try:
        check_source(run.plan)
    except SourceError as error:
        raise StageError(str(error)) from error
    settings = source_settings(run.plan)
    items = source_items(source, instances(run), run.plan)
    run.folder.write_table(f"{SOURCE}/data/items.parquet", study.item_table(items))
    failures: Counter[str] = Counter()
    turns = 0
    with ExitStack() as open_:
        cast = StudyCast(
            seed=run.plan.seed,
            settings=settings,
            models={
                part: OnePromptRefused(run.speakers.of(part)) for part in study.models(settings)
            },
            searches={
                arm: JournaledSearch(backend, run.speakers.journal)
                for arm, backend in open_searches(study, settings, SEARCHES).items()
            },
        )
        kept = open_.enter_context(closing(Kept(run.folder.path(ENDED_ITEMS), len(items))))
        bar = open_.enter_context(run.progress.bar("items", len(items)))

        def keep(place: int, held: Held) -> None:
            nonlocal turns
            kept.keep(place, {"turns": list(held.turns), **held.tables})
            failures.update(why for row in held.outcomes if (why := source.failure(row)))
            turns += len(held.turns)
            run.speakers.journal.forget(items[place].address)
            bar.advance()

        run.speakers.run(
            hold_each(lambda item: study.hold(item, cast), items, run.plan.debate.in_flight, keep)
        )
        for table, schema in {"turns": TURN_SCHEMA, **study.TABLES}.items():
            batches = (_batch(held[table], schema) for held in kept.values())
            run.folder.write_batches(f"{SOURCE}/data/{table}.parquet", schema, batches)
    spent = tokens_since(run, before)
    return DebatesResult(
        debates=len(items),
        statements=turns,
        failures=dict(failures),
        label_sources={},
        source=name,
        tokens=spent["tokens"],
        paid_tokens=spent["paid_tokens"],
    )


def _batch(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=schema)
