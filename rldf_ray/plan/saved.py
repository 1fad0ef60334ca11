"""The plan that a run folder was begun with."""

from __future__ import annotations

from collections.abc import Mapping

import yaml

from rldf_ray.plan.plan import RUNTIME_FIELDS, Plan
from rldf_ray.storage.run_folder import RunFolder, RunFolderError


def settle_plan(plan: Plan, folder: RunFolder) -> None:
    """Make `plan` the folder's own; a folder of another plan is refused, not overwritten.

    Raises:
        RunFolderError: the folder holds a run of another plan.
    """
    path = folder.root / "plan.yaml"
    if path.exists():
        saved = Plan.with_added_fields(yaml.safe_load(path.read_text(encoding="utf-8")))
        differing = set(_differences(saved, plan.model_dump(mode="json"))) - set(RUNTIME_FIELDS)
        if differing:
            raise RunFolderError(
                f"{folder.where} holds a run of another plan (differs in "
                f"{', '.join(sorted(differing))}): give another --out, or the plan it was begun "
                "with (its plan.yaml)"
            )
    folder.write_text("plan.yaml", plan.to_yaml())


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
