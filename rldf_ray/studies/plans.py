"""Plans of studies: presets that ship with a protocol, files, overrides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rldf_ray import protocols
from rldf_ray.plan.loading import (
    PlanError,
    PlanField,
    apply_override,
    explain,
    plan_fields,
    plan_values,
)
from rldf_ray.plan.study import StudyPlan
from rldf_ray.prompts.own import PromptError, check_prompts
from rldf_ray.protocols.known import study_named
from rldf_ray.storage.folders import visible


@dataclass(frozen=True)
class LoadedStudy:
    """A study's plan, and its settings as the protocol reads them."""

    plan: StudyPlan
    settings: Any


def study_presets(name: str) -> dict[str, Path]:
    """The plans that ship with a study, by name."""
    folder = Path(protocols.__path__[0]) / name / "presets"
    return {path.stem: path for path in visible(folder, "*.yaml")} if folder.is_dir() else {}


def load_study(name: str, plan: str, overrides: Sequence[str] = ()) -> LoadedStudy:
    """A preset of the study `name` or a YAML file, with `section.field=value` overrides.

    Raises:
        ProtocolError: there is no such study.
        PlanError: no such plan, not YAML, or wrong fields; the message lists all of them.
    """
    study = study_named(name)
    values = plan_values(plan, study_presets(name))
    # The plan of a study's folder says which study it is of.
    if values.pop("study", name) != name:
        raise PlanError(f"plan {plan}: it is of another study than {name}")
    fields = list(study_fields(name))
    for override in overrides:
        apply_override(values, override, fields)
    try:
        loaded = StudyPlan.model_validate(values)
    except ValidationError as error:
        raise PlanError(f"plan {plan}:\n{explain(error, fields)}") from error
    try:
        settings = study.SETTINGS.model_validate(loaded.settings)
    except ValidationError as error:
        raise PlanError(f"plan {plan}:\n{explain(error, fields, 'settings')}") from error
    try:
        check_prompts(loaded.prompts or {}, [f"protocols/{name}"])
    except PromptError as error:
        raise PlanError(f"plan {plan}:\n  prompts: {error}") from error
    lacking = [model for model in study.models(settings) if model not in loaded.models]
    if lacking:
        raise PlanError(
            f"plan {plan}: settings name {', '.join(map(repr, lacking))}, which `models` does not; "
            f"it has {', '.join(loaded.models)}"
        )
    whole = {
        "models": {model: loaded.models[model] for model in study.models(settings)},
        "settings": settings.model_dump(mode="json"),
    }
    return LoadedStudy(loaded.model_copy(update=whole), settings)


def study_fields(name: str) -> Iterator[PlanField]:
    """Every field of a study's plan, its own settings after the others."""
    yield from (field for field in plan_fields(StudyPlan) if field.path != "settings")
    yield from plan_fields(study_named(name).SETTINGS, "settings.")
