"""`rldf doctor --study NAME`: whether a study can be held here; every line says what to change."""

from __future__ import annotations

from pathlib import Path

from rldf_ray.cluster.placement import place_speaking
from rldf_ray.cluster.ray_cluster import reported_resources
from rldf_ray.cluster.session_folder import check_session_folder
from rldf_ray.plan.speaking import speaks_here
from rldf_ray.preflight.disk import check_room
from rldf_ray.preflight.doctor import Check, checked, endpoint_answers, packages_of
from rldf_ray.preflight.study import check_study, fits_together
from rldf_ray.protocols.item_sets import left_out_of
from rldf_ray.protocols.known import study_named
from rldf_ray.protocols.searches import open_searches
from rldf_ray.studies.plans import LoadedStudy

COMPUTING = ("ray", "torch", "transformers", "vllm")


def examine_study(name: str, loaded: LoadedStudy, out: Path) -> list[Check]:
    """All checks; none of them starts an engine or asks a model."""
    plan, here = loaded.plan, speaks_here(loaded.plan)
    resources = reported_resources()
    together, reckoned = fits_together(plan, resources)
    if plan.take_turns is not None:
        together, reckoned = not plan.take_turns, f"take_turns={str(plan.take_turns).lower()}"
    checks = [
        checked("packages", lambda: packages_of(COMPUTING if here else ())),
        checked("data", lambda: _items(name, loaded)),
        checked("models", lambda: _models(loaded)),
        checked("searches", lambda: _searches(name, loaded)),
        checked("endpoint", lambda: endpoint_answers(plan)),
        checked("disk", lambda: check_room(out, 0)),
    ]
    if here:
        checks += [
            checked("temporary folder", check_session_folder),
            checked("models in memory", lambda: reckoned),
            checked("placement", lambda: place_speaking(plan, resources, together).describe()),
        ]
    return checks


def _items(name: str, loaded: LoadedStudy) -> str:
    items = study_named(name).items(loaded.settings, loaded.plan.seed)
    left = "".join(f"; {n} left out: {why}" for why, n in left_out_of(items).items())
    return f"{len(items)} items{left}"


def _models(loaded: LoadedStudy) -> str:
    check_study(loaded.plan)
    return ", ".join(f"{name}: {model}" for name, model in loaded.plan.models.items())


def _searches(name: str, loaded: LoadedStudy) -> str:
    backends = open_searches(study_named(name), loaded.settings)
    return ", ".join(f"{arm}: {backend.name}" for arm, backend in backends.items()) or "none"
