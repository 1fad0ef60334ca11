"""A study, whole: its items are held, and what they came to becomes tables, figures and a report.

    plan + data --> items --> held by many at once --> turns, outcomes --> tables, figures, report

What has finished is never done again: calls are in the journal, and the tables of turns and
outcomes are written when the last item has ended. Tables and figures are made anew every time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rldf_ray.console import Progress
from rldf_ray.plan.counted import STUDY_RUNTIME_FIELDS
from rldf_ray.plan.saved import has_work, other_plan
from rldf_ray.plan.study import StudyPlan
from rldf_ray.preflight.study import check_study
from rldf_ray.prompts import own_prompts
from rldf_ray.protocols.known import study_named
from rldf_ray.protocols.searches import open_searches
from rldf_ray.protocols.study import Summary
from rldf_ray.storage.digest import digest
from rldf_ray.storage.run_folder import RunFolder, RunFolderError
from rldf_ray.storage.yaml_text import read_yaml
from rldf_ray.studies.holding import HELD, hold_items
from rldf_ray.studies.plans import LoadedStudy
from rldf_ray.studies.reporting import report_study
from rldf_ray.studies.searches import Searched, changed_search, searched_by


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
    with folder.locked(), own_prompts(plan.prompts):
        items = study.items(settings, plan.seed)
        table = study.item_table(items)
        rows = table.to_pylist()
        key, earlier = (digest(name, d, rows) for d in (plan.digest(), plan.earlier_digest()))
        held_before = folder.manifest(HELD) is not None
        # Before the folder is begun: what cannot be searched leaves nothing behind.
        backends = {} if held_before else open_searches(study, settings)
        _settle(name, plan, (key, earlier), searched_by(study, settings, backends), folder)
        folder.write_table("data/items.parquet", table)
        if held_before:
            progress.say("items: held before")
        else:
            check_study(plan)
            hold_items(study, items, loaded, backends, folder, progress, key)
        summary = report_study(name, items, loaded, folder)
    for note in summary.notes:
        progress.say(f"- {note}")
    progress.say(f"report: {folder.address('report.html')}")
    return summary


def _settle(
    name: str, plan: StudyPlan, keys: tuple[str, str], searched: Searched, folder: RunFolder
) -> None:
    """Make plan and data the folder's own; a study of others is refused, not overwritten.

    Args:
        keys: of plan and data, and what an earlier version has for it.
    """
    before: dict[str, Any] = {}
    path = folder.root / "plan.yaml"
    if path.exists() and has_work(folder, "journal", "stages"):
        saved = read_yaml(path.read_text(encoding="utf-8"))
        given = {"study": name, **plan.model_dump(mode="json")}
        differing = set(_differing(saved, given)) - set(STUDY_RUNTIME_FIELDS)
        if differing:
            raise RunFolderError(f"{folder.where} holds another study {other_plan(differing)}")
        before = folder.read_object("study.json", ("key",))
        if before["key"] not in keys:
            raise RunFolderError(
                f"{folder.where} was begun on other items: the data at settings.data has changed, "
                "or an earlier version drew its sample otherwise; put the data back, go on with "
                "that version, or give another --out"
            )
        if problem := changed_search(before.get("searched", {}), searched):
            raise RunFolderError(f"{folder.where} {problem}")
    # In this order: where there is a plan, there is the key as well.
    about = {"study": name, "key": keys[0], "searched": {**before.get("searched", {}), **searched}}
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
