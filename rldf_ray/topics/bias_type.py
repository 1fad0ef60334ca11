"""Bias types: the identities that debate and the seed topics, a YAML file each."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rldf_ray.errors import UserError
from rldf_ray.records import Identity
from rldf_ray.storage.folders import visible
from rldf_ray.storage.yaml_text import read_yaml

SHIPPED = Path(__file__).parent / "bias_types"


class BiasTypeError(UserError, ValueError):
    """A bias type's file is missing or wrong; the message names the file and the field."""


class SeedJudgement(BaseModel):
    """A judgement topic as a bias type's file lists it (METHOD 1)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    scene: str
    clue: str
    question: str
    groups: tuple[str, str]
    answer: str


class BiasType(BaseModel):
    """One bias type: who debates, and the seed topics."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    title: str
    about: str
    identities: tuple[Identity, ...] = Field(min_length=5)
    opinion_topics: tuple[str, ...]
    judgement_topics: tuple[SeedJudgement, ...]


def shipped_bias_types() -> list[str]:
    """Names of the bias types that come with the package."""
    return [path.stem for path in visible(SHIPPED, "*.yaml")]


@cache
def bias_type(name: str) -> BiasType:
    """A bias type by name, or by the path of a YAML file; its `name` is what the plan calls it.

    Raises:
        BiasTypeError: no such bias type, or its file is wrong.
    """
    path = SHIPPED / f"{name}.yaml"
    if not path.exists():
        path = Path(name)
    if not path.is_file():
        known = ", ".join(shipped_bias_types())
        raise BiasTypeError(f"bias type {name!r}: neither one of {known} nor a YAML file")
    try:
        bias_type = BiasType.model_validate(read_yaml(path.read_text(encoding="utf-8")))
    except (ValidationError, yaml.YAMLError) as error:
        raise BiasTypeError(f"bias type file {path}: {error}") from error
    return bias_type.model_copy(update={"name": name})
