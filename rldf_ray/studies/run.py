"""A study, whole: its items are held, and what they came to becomes tables, figures and a report.

    plan + data --> items --> held by many at once --> turns, outcomes --> tables, figures, report

What has finished is never done again: calls are in the journal, and the tables of turns and
outcomes are written when the last item has ended. Tables and figures are made anew every time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from rldf_ray.cluster.memory import watch_memory
from rldf_ray.cluster.placement import Resources, place_speaking
from rldf_ray.cluster.provenance import provenance
from rldf_ray.cluster.ray_cluster import ray_cluster, this_machine
from rldf_ray.console import Bar, Progress
from rldf_ray.engines.speakers import Speakers
from rldf_ray.models.base import Usage
from rldf_ray.plan.speaking import speaks_here
from rldf_ray.plan.study import STUDY_RUNTIME_FIELDS, StudyPlan
from rldf_ray.preflight.study import check_study, fits_together
from rldf_ray.protocols.hold import hold_each
from rldf_ray.protocols.item_sets import ItemSet, left_out_of
from rldf_ray.protocols.known import study_named
from rldf_ray.protocols.study import TURN_SCHEMA, Held, Study, StudyCast, Summary
from rldf_ray.search.backend import SearchBackend
from rldf_ray.search.journaled import JournaledSearch
from rldf_ray.storage.digest import digest
from rldf_ray.storage.kept import Kept
from rldf_ray.storage.run_folder import RunFolder, RunFolderError
from rldf_ray.storage.yaml_text import read_yaml
from rldf_ray.studies.page import study_page
from rldf_ray.studies.plans import LoadedStudy
from rldf_ray.studies.searches import (
    Searched,
    changed_search,
    open_searches,
    searched_by,
    searched_table,
)
from rldf_ray.studies.writing import write_figures, write_tables

HELD = "hold"
"""The stage whose manifest says that all items have been held."""
ENDED_ITEMS = "journal/items{}.jsonl"


def run_study(name: str, loaded: LoadedStudy, out: str | Path, progress: Progress) -> Summary:
    """Hold all items of a study that have not been, and write its report.

    Args:
        out: the study's folder, or its address in an object store.

    Raises:
        RunFolderError: the folder is in use, or holds another study.
        SearchError, PreflightError, PlacementError, ModelError: with what to do about it.
    """
    study = study_named(name)
    plan, settings = loaded.plan, loaded.settings
    folder = RunFolder.at(out)
    with folder.locked():
        items = study.items(settings, plan.seed)
        table = study.item_table(items)
        key = digest(name, plan.digest(), table.to_pylist())
        held_before = folder.manifest(HELD) is not None
        # Before the folder is begun: what cannot be searched leaves nothing behind.
        backends = {} if held_before else open_searches(study, settings)
        _settle(name, plan, key, searched_by(study, settings, backends), folder)
        folder.write_table("data/items.parquet", table)
        if held_before:
            progress.say("items: held before")
        else:
            check_study(plan)
            _hold(study, items, loaded, backends, folder, progress, key)
        summary = _report(name, study, items, loaded, folder)
    for note in summary.notes:
        progress.say(f"- {note}")
    progress.say(f"report: {folder.address('report.html')}")
    return summary


def _settle(name: str, plan: StudyPlan, key: str, searched: Searched, folder: RunFolder) -> None:
    """Make plan and data the folder's own; a folder of others is refused, not overwritten."""
    before: dict[str, Any] = {}
    path = folder.root / "plan.yaml"
    if path.exists():
        saved = read_yaml(path.read_text(encoding="utf-8"))
        given = {"study": name, **plan.model_dump(mode="json")}
        differing = sorted(set(_differing(saved, given)) - set(STUDY_RUNTIME_FIELDS))
        if differing:
            raise RunFolderError(
                f"{folder.where} holds another study (differs in {', '.join(differing)}): give "
                "another --out, or the plan it was begun with (its plan.yaml)"
            )
        before = folder.read_object("study.json", ("key",))
        if before["key"] != key:
            raise RunFolderError(
                f"{folder.where} was begun on other items: the data at settings.data has changed; "
                "put it back, or give another --out"
            )
        if problem := changed_search(before.get("searched", {}), searched):
            raise RunFolderError(f"{folder.where} {problem}")
    # In this order: where there is a plan, there is the key as well.
    about = {"study": name, "key": key, "searched": {**before.get("searched", {}), **searched}}
    folder.write_json("study.json", about)
    folder.write_text("plan.yaml", f"study: {name}\n{plan.to_yaml()}")


def _differing(saved: object, given: object, path: str = "") -> Iterator[str]:
    """Paths of the fields in which two plans differ."""
    if not isinstance(saved, Mapping) or not isinstance(given, Mapping):
        if saved != given:
            yield path
        return
    for name in saved.keys() | given.keys():
        yield from _differing(saved.get(name), given.get(name), f"{path}.{name}".lstrip("."))


def _hold(
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
            models={name: speakers.of(name) for name in plan.models},
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
        for name, schema in _schemas(study).items():
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


def _report(
    name: str, study: Study, items: Sequence[Any], loaded: LoadedStudy, folder: RunFolder
) -> Summary:
    """tables/, figures/, report.json, report.html."""
    plan = loaded.plan
    tables = {
        table: folder.read_table(f"data/{table}.parquet", schema)
        for table, schema in {**_schemas(study), **_given(study, folder)}.items()
    }
    summary = study.summary(items, tables, loaded.settings, plan.seed)
    searched = folder.read_object("study.json").get("searched", {})
    if (table := searched_table(searched)) is not None:
        summary = replace(summary, tables=[*summary.tables, table])
    write_tables(folder, summary.tables)
    write_figures(folder, summary.figures)
    # What a study gives people besides tables and figures, where it gives them anything.
    for_people = getattr(study, "write_for_people", None)
    pages = for_people(folder, items, tables, loaded.settings, plan) if for_people else None
    held = folder.manifest(HELD) or {}
    report = {
        "study": name,
        "title": study.TITLE,
        "name": plan.name,
        "plan": plan.model_dump(mode="json"),
        "settings": loaded.settings.model_dump(mode="json"),
        "key": held.get("key"),
        "made_by": provenance(),
        "held": held,
        "items": len(items),
        "searched": searched,
        "notes": list(summary.notes),
        "facts": summary.facts,
        "tables": [asdict(table) for table in summary.tables],
        "pages": dict(pages or {}),
    }
    folder.write_json("report.json", report)
    folder.write_text("report.html", study_page(report, summary, folder))
    return summary


def report_again(
    name: str, loaded: LoadedStudy, items: Sequence[Any], folder: RunFolder
) -> Summary:
    """The report of a finished study, after people gave it something.

    Args:
        items: of its folder; what was left out of the data stands in its report.
    """
    facts = folder.read_object("report.json", ("facts",))["facts"]
    whole = ItemSet(items, facts.get("left_out", {}))
    return _report(name, study_named(name), whole, loaded, folder)


def _given(study: Study, folder: RunFolder) -> dict[str, pa.Schema]:
    """The tables that people gave, where they gave any."""
    schemas: Mapping[str, pa.Schema] = getattr(study, "GIVEN", {})
    return {n: one for n, one in schemas.items() if folder.path(f"data/{n}.parquet").exists()}


def _schemas(study: Study) -> dict[str, pa.Schema]:
    """All tables of a study's folder, by name."""
    return {"turns": TURN_SCHEMA, **study.TABLES}
