"""What the functions are given, as plans have it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rldf_ray.plan import Endpoint, PlanError
from rldf_ray.plan.loading import explain
from rldf_ray.storage.json_text import NotFiniteError, exact_json

Overrides = Mapping[str, Any]
"""Fields of a plan by their dotted names, as {"debate.rounds": 2}."""


def written(overrides: Overrides | None) -> list[str]:
    """As the command line has them: JSON is YAML.

    Raises:
        PlanError: a value is none that a plan can have.
    """
    return [f"{field}={_value_text(field, value)}" for field, value in (overrides or {}).items()]


def _value_text(field: str, value: object) -> str:
    try:
        return exact_json(plain(value), f"overrides: {field}", "None is no number")
    except NotFiniteError as error:
        raise PlanError(str(error)) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise PlanError(
            f"overrides: {field} is {type(value).__name__} and cannot be written ({error}); "
            "allowed: numbers, texts, paths, None, and lists and mappings of them"
        ) from None


def plain(value: object) -> object:
    """The value with paths as texts."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def endpoint_of(fields: Mapping[str, Any]) -> Endpoint:
    """
    Raises:
        PlanError: a field is wrong, or there is none of its name.
    """
    try:
        return Endpoint.model_validate(dict(fields) if isinstance(fields, Mapping) else fields)
    except ValidationError as error:
        raise PlanError(f"the endpoint:\n{explain(error, section='endpoint')}") from None
