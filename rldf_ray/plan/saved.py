"""The plan that a run folder was begun with."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from rldf_ray.plan.counted import RUNTIME_FIELDS, with_added_fields
from rldf_ray.plan.loading import PlanError, load_plan
from rldf_ray.plan.plan import Plan
from rldf_ray.storage.run_folder import RunFolder, RunFolderError
from rldf_ray.storage.stages import PIPELINE
from rldf_ray.storage.unfinished import check_finished
from rldf_ray.storage.yaml_text import read_yaml

PLAN = "plan.yaml"
KEPT_CALLS = "with a copy of this one's journal/ in it no model is asked the same twice"
OTHER_MODELS = ("endpoint.base_url", "engines.dtype")
"""Fields that make models of the same names others: a journal does not answer for those."""


def another_run(change: str) -> str:
    """What to do where a run's own plan would have to change; `change` is what to begin it with."""
    return f"begin another run with {change} (another --out; {KEPT_CALLS})"


def other_plan(differing: Collection[str]) -> str:
    """What to do where a folder holds what was begun with a plan that differs in these fields."""
    what = f"(differs in {', '.join(sorted(differing))})"
    advice = "give the plan it was begun with (its plan.yaml), or another --out"
    kept = "" if {*OTHER_MODELS} & {*differing} else f"; {KEPT_CALLS}"
    return f"{what}: {advice}{kept}"


def has_work(folder: RunFolder, *within: str) -> bool:
    """Whether anything was written into these folders of a run: else it has a plan and no more."""
    files = (path for name in within for path in (folder.root / name).rglob("*"))
    return any(path.is_file() and path.stat().st_size for path in files)


def settle_plan(plan: Plan, folder: RunFolder) -> None:
    """Make `plan` the folder's own; a run of another plan is refused, not overwritten.

    A plan that failed its checks before anything was done is in nobody's way.

    Raises:
        PlanError: the folder's plan cannot be read.
        RunFolderError: it is empty, the folder holds a run of another plan, or stages of one, or an
            import that has not ended.
    """
    check_finished(folder)
    path = folder.root / PLAN
    if path.exists():
        _load(path)
        saved = with_added_fields(read_yaml(path.read_text(encoding="utf-8")))
        differing = set(_differences(saved, plan.model_dump(mode="json"))) - set(RUNTIME_FIELDS)
        if differing and has_work(folder, "journal", "data", "stages"):
            raise RunFolderError(
                f"{folder.where} holds a run of another plan {other_plan(differing)}"
            )
    check_stages(plan, folder)
    folder.write_text(PLAN, plan.to_yaml())


def saved_plan(folder: RunFolder) -> Plan:
    """The plan of a run folder, which its stages were done with.

    Raises:
        PlanError: there is none, or it cannot be read.
        RunFolderError: it is empty, or a stage was done with another one.
    """
    path = folder.fetched(PLAN)
    if not path.exists():
        raise PlanError(f"{folder.where} has no plan.yaml, so it is no run")
    plan = _load(path)
    folder.fetched("stages")
    check_stages(plan, folder)
    return plan


def _load(path: Path) -> Plan:
    if not path.read_bytes().strip():
        raise RunFolderError(f"{path} is empty: put the plan back that the run was begun with")
    return load_plan(str(path), saved=True)


def check_stages(plan: Plan, folder: RunFolder) -> None:
    """Nothing where every finished stage of the folder is one of `plan`.

    A stage that was taken from another run is that run's, and an evaluation may have had items of
    its own. A stage of an earlier version has that version's digest of the plan.

    Raises:
        RunFolderError: one is of another plan.
        UnreadableFileError: a manifest cannot be read.
    """
    manifests = {name: folder.manifest(name) or {} for name in PIPELINE if name != "eval"}
    keys = {
        name: manifest["key"]
        for name, manifest in manifests.items()
        if "taken_from" not in manifest and "key" in manifest
    }
    own = (plan.digest(), plan.earlier_digest())
    others = [name for name, key in keys.items() if key not in own]
    if others:
        raise RunFolderError(
            f"{folder.root / PLAN} is not the plan that {', '.join(others)} "
            f"{'was' if len(others) == 1 else 'were'} done with (it is {plan.digest()}, "
            f"stages/{others[0]}.json says {keys[others[0]]}): put that plan back, or begin "
            "another run with this one (`rldf run PLAN --out DIR`)"
        )


def _differences(saved: Mapping[str, object], given: Mapping[str, object]) -> list[str]:
    """Paths of the fields in which two plans differ."""
    paths = []
    for name in sorted(saved.keys() | given.keys()):
        a, b = saved.get(name), given.get(name)
        if isinstance(a, dict) and isinstance(b, dict):
            paths += [f"{name}.{n}" for n in sorted(a.keys() | b.keys()) if a.get(n) != b.get(n)]
        elif a != b:
            paths.append(name)
    return paths
