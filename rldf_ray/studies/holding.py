"""All items of a study, held by many at once, and again where the study says so."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any

import pyarrow as pa

from rldf_ray.cluster.memory import watch_memory
from rldf_ray.cluster.placement import Resources, place_speaking
from rldf_ray.cluster.provenance import provenance
from rldf_ray.cluster.ray_cluster import ray_cluster, this_machine
from rldf_ray.console import Bar, Progress
from rldf_ray.engines.speakers import Speakers
from rldf_ray.models.base import Usage
from rldf_ray.models.one_prompt_refused import OnePromptRefused
from rldf_ray.plan.speaking import speaks_here
from rldf_ray.plan.study import StudyPlan
from rldf_ray.preflight.study import fits_together
from rldf_ray.protocols.hold import hold_each
from rldf_ray.protocols.item_sets import left_out_of
from rldf_ray.protocols.study import TURN_SCHEMA, Held, Study, StudyCast
from rldf_ray.search.backend import SearchBackend
from rldf_ray.search.journaled import JournaledSearch
from rldf_ray.storage.kept import Kept
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.studies.plans import LoadedStudy

HELD = "hold"
"""The stage whose manifest says that all items have been held."""
ENDED_ITEMS = "journal/items{}.jsonl"


def hold_items(
    study: Study,
    items: Sequence[Any],
    loaded: LoadedStudy,
    backends: Mapping[str, SearchBackend],
    folder: RunFolder,
    progress: Progress,
    key: str,
) -> None:
    """All items -> data/turns.parquet and the study's own tables."""
    plan = loaded.plan
    left = sum(left_out_of(items).values())
    number = f"{len(items)} items{f' ({left} of the data left out)' if left else ''}"
    progress.say(f"study {plan.name}, {number}, logs in {folder.root / 'logs'}")
    began = time.monotonic()
    with ExitStack() as open_, watch_memory() as peak:
        machines = ray_cluster if speaks_here(plan) else this_machine
        resources = open_.enter_context(machines(folder.root / "logs"))
        together, why = _together(plan, resources)
        progress.say(f"models: {why}")
        speakers = Speakers(
            plan=plan,
            folder=folder,
            placement=place_speaking(plan, resources, together),
            progress=progress,
            taking_turns=not together,
        )
        open_.callback(speakers.end)
        cast = StudyCast(
            seed=plan.seed,
            settings=loaded.settings,
            models={name: OnePromptRefused(speakers.of(name)) for name in plan.models},
            searches={
                name: JournaledSearch(backend, speakers.journal)
                for name, backend in backends.items()
            },
        )

        def kept(number: int) -> Kept:
            path = folder.path(ENDED_ITEMS.format(f"-{number}" if number > 1 else ""))
            return open_.enter_context(closing(Kept(path, len(items))))

        def forget(place: int) -> None:
            speakers.journal.forget(items[place].address)

        passes = speakers.run(_passes(study, items, cast, plan.in_flight, kept, forget, progress))
        for name, schema in schemas(study).items():
            rows = (
                pa.RecordBatch.from_pylist([row for held in several for row in held[name]], schema)
                for several in zip(*(kept.values() for kept in passes), strict=True)
            )
            folder.write_batches(f"data/{name}.parquet", schema, rows)
        used, paid = speakers.usage, speakers.paid_usage
    folder.finish(
        HELD,
        key,
        {
            "seconds": round(time.monotonic() - began, 1),
            "peak_pss_gib": round(peak.gib, 2),
            "tokens": used.numbers(),
            "paid_tokens": paid.numbers(),
            "usd": _usd(plan, paid),
            "together": together,
            **provenance(),
        },
    )


async def _passes(
    study: Study,
    items: Sequence[Any],
    cast: StudyCast,
    in_flight: int,
    kept: Callable[[int], Kept],
    forget: Callable[[int], None],
    progress: Progress,
) -> list[Kept]:
    """All items, and all again as often as the study says, by what they came to.

    Args:
        kept: where the items of a pass are kept, by its number from 1.
        forget: that an item's calls will be asked for again.
    """
    again = getattr(study, "again", None)
    passes: list[Kept] = []
    more: StudyCast | None = cast
    while more is not None:
        passes.append(kept(len(passes) + 1))
        with progress.bar("items", len(items)) as bar:
            await _pass(study, items, more, in_flight, passes[-1], forget, bar)
        rows = (row for one in passes for held in one.values() for row in held["outcomes"])
        what = None if again is None else again(list(rows), cast.settings)
        more = None if what is None else replace(cast, again=what)
    return passes


async def _pass(
    study: Study,
    items: Sequence[Any],
    cast: StudyCast,
    in_flight: int,
    kept: Kept,
    forget: Callable[[int], None],
    bar: Bar,
) -> None:
    """All items once, each kept as it ends."""

    def keep(place: int, held: Held) -> None:
        kept.keep(place, {"turns": list(held.turns), **held.tables})
        # A further pass may find answers in the journal, where it was cut off before.
        if not hasattr(study, "again"):
            forget(place)
        bar.advance()

    await hold_each(lambda item: study.hold(item, cast), items, in_flight, keep)


def _together(plan: StudyPlan, resources: Resources) -> tuple[bool, str]:
    """Whether all local models are loaded at once, and why."""
    if plan.take_turns is not None:
        return not plan.take_turns, f"take_turns={str(plan.take_turns).lower()}"
    return fits_together(plan, resources)


def _usd(plan: StudyPlan, paid: Usage) -> float | None:
    return plan.endpoint.usd(paid.prompt, paid.generated) if paid.total else 0.0


def schemas(study: Study) -> dict[str, pa.Schema]:
    """All tables of a study's folder, by name."""
    return {"turns": TURN_SCHEMA, **study.TABLES}
