"""Plans from presets, files and overrides, and errors that say what is allowed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from rldf_ray.errors import UserError
from rldf_ray.plan.counted import with_added_fields
from rldf_ray.plan.endpoint import Endpoint
from rldf_ray.plan.plan import Plan
from rldf_ray.plan.section import Section
from rldf_ray.storage.folders import visible
from rldf_ray.storage.yaml_text import read_yaml

TEXTS = ("str", "str | null")
"""Types of fields, as `rldf plan fields` prints them, in which everything is a text."""
SHOWN = 200
"""Characters of a wrong value that a message shows."""


class PlanError(UserError):
    """A plan that cannot run; the message names every wrong field, its value, what is allowed."""


def presets() -> dict[str, Path]:
    """The presets that ship with the package, by name."""
    folder = Path(str(resources.files("rldf_ray") / "presets"))
    return {path.stem: path for path in visible(folder, "*.yaml")}


def load_plan(name_or_path: str, overrides: Sequence[str] = (), *, saved: bool = False) -> Plan:
    """Read a preset or a YAML file and apply `section.field=value` overrides.

    Args:
        saved: it is a run's own plan; an earlier version may have written it, and fields that it
            lacks are read as they were meant then.

    Raises:
        PlanError: no such plan, not YAML, or wrong fields; the message lists all of them.
    """
    values = plan_values(name_or_path, presets())
    if saved:
        values = with_added_fields(values)
    fields = list(plan_fields()) if overrides else []
    for override in overrides:
        apply_override(values, override, fields)
    try:
        return Plan.model_validate(values, context={"saved": saved})
    except ValidationError as error:
        raise PlanError(f"plan {name_or_path}:\n{explain(error)}") from error


def plan_values(name_or_path: str, known: Mapping[str, Path]) -> dict[str, Any]:
    """The fields of a preset among `known`, or of a YAML file, as they are written.

    Raises:
        PlanError: there is no such plan, or it is not YAML, or holds no fields.
    """
    path = known.get(name_or_path, Path(name_or_path))
    if not path.is_file():
        raise PlanError(f"plan {name_or_path!r}: neither a preset ({', '.join(known)}) nor a file")
    try:
        values = read_yaml(path.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise PlanError(f"plan {path}: not valid YAML: {error}") from error
    if not isinstance(values, dict):
        raise PlanError(f"plan {path}: expected fields, found {type(values).__name__}")
    return values


def apply_override(values: dict[str, Any], override: str, fields: Iterable[PlanField] = ()) -> None:
    """Set one field of a plan's values, or a whole section, by its dotted path.

    Args:
        fields: those that there are; what is given for a text is a text, also if it is a number.

    Raises:
        PlanError: it is not FIELD=VALUE, or goes into a value.
    """
    dotted, separator, text = override.partition("=")
    if not separator or not dotted:
        raise PlanError(f"--set {override!r}: expected FIELD=VALUE, e.g. debate.rounds=5")
    *sections, field = dotted.strip().split(".")
    for section in sections:
        values = values.setdefault(section, {})
        if not isinstance(values, dict):
            raise PlanError(f"--set {override!r}: {section} is a value, not a section")
    try:
        value = read_yaml(text)
    except yaml.YAMLError as error:
        raise PlanError(f"--set {override!r}: the value is not valid YAML: {error}") from error
    texts = {one.path for one in fields if one.type in TEXTS}
    if dotted.strip() in texts and not isinstance(value, str | list | dict | None):
        value = text.strip()
    values[field] = value


def endpoint_at(base_url: str | None, api_key_env: str | None, plan: str | None = None) -> Endpoint:
    """An endpoint that options of a command name, or that of a plan with these changes.

    Raises:
        PlanError: it cannot be used; the message says why.
    """
    named = {"base_url": base_url, "api_key_env": api_key_env}
    given = {name: value for name, value in named.items() if value is not None}
    if plan is not None:
        given = load_plan(plan).endpoint.model_dump() | given
    try:
        return Endpoint.model_validate(given)
    except ValidationError as error:
        raise PlanError(f"the endpoint:\n{explain(error)}") from None


def explain(
    error: ValidationError, fields: Sequence[PlanField] | None = None, section: str = ""
) -> str:
    """What is wrong with a plan, a line a field.

    Args:
        fields: those that there are; by default a run's.
        section: the part of the plan that was read.
    """
    known = list(plan_fields()) if fields is None else fields
    return "\n".join(_explain_one(details, known, section) for details in error.errors())


def _explain_one(details: Any, fields: Sequence[PlanField], section: str) -> str:
    path = [*filter(None, [section]), *map(str, details["loc"])]
    where = ".".join(path) or "plan"
    if details["type"] == "extra_forbidden":
        return f"  {where}: no such field; {_nearest(path, fields)}"
    value = details["input"]
    shown = "" if _has_sections(value) else f" (found {_shown(value)})"
    said = details["msg"].removeprefix("Value error, ") + _how_to_write(details)
    # A check of a whole section begins with the field that it is about.
    named, _, rest = said.partition(": ")
    inside = ".".join([*path, named])
    if rest and any(f"{field.path}.".startswith(f"{inside}.") for field in fields):
        where, said = inside, rest
    return f"  {where}: {said}{shown}"


def _how_to_write(details: Any) -> str:
    """What YAML wants of a list, or of a text that it takes for something else."""
    value, kind = details["input"], details["type"]
    if kind in ("tuple_type", "list_type") and isinstance(value, str):
        return f": a list is written in brackets, as [{value}]"
    if kind == "string_type" and isinstance(value, bool | int | float | date):
        return f": a text that YAML reads as something else is written in quotes, as '{value}'"
    return ""


def _has_sections(value: object) -> bool:
    """Whether fields of their own are in it, of which one may hold what no message repeats."""
    if isinstance(value, list | tuple):
        return any(map(_has_sections, value))
    return isinstance(value, dict | BaseModel)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _nearest(path: Sequence[str], fields: Sequence[PlanField]) -> str:
    """What stands beside a field that is not there: fields first, then sections."""
    parent = ".".join(path[:-1])
    inside = f"{parent}." if parent else ""
    beside = [f.path.removeprefix(inside) for f in fields if f.path.startswith(inside)]
    names = [name for name in beside if "." not in name]
    sections = dict.fromkeys(name.partition(".")[0] for name in beside if "." in name)
    return f"allowed in {parent or 'the plan'}: {', '.join([*names, *sections])}"


@dataclass(frozen=True, kw_only=True)
class PlanField:
    """One field as `rldf plan fields` prints it."""

    path: str
    type: str
    default: object
    unit: str
    source: str
    description: str


def plan_fields(model: type[BaseModel] = Plan, prefix: str = "") -> Iterator[PlanField]:
    """Every field of the plan, sections flattened."""
    for name, info in model.model_fields.items():
        if _is_section(info):
            assert isinstance(info.annotation, type)
            yield from plan_fields(info.annotation, f"{prefix}{name}.")
            continue
        extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
        yield PlanField(
            path=f"{prefix}{name}",
            type=_type_name(info.annotation),
            default=info.default,
            unit=str(extra.get("unit", "")),
            source=str(extra.get("source", "")),
            description=info.description or "",
        )


def _is_section(info: Any) -> bool:
    return isinstance(info.annotation, type) and issubclass(info.annotation, Section)


def _type_name(annotation: Any) -> str:
    if isinstance(annotation, type):
        return annotation.__name__
    text = str(annotation).replace("typing.", "").replace("NoneType", "null")
    return text.replace("None", "null")
