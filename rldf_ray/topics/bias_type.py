"""Bias types: the identities that debate and the seed topics, a YAML file each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rldf_ray.errors import UserError
from rldf_ray.records import Identity
from rldf_ray.storage.digest import file_digest
from rldf_ray.storage.folders import visible
from rldf_ray.storage.given_text import TextError, given_text
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
        bias_type = BiasType.model_validate(read_yaml(given_text(path)))
    except TextError as error:
        raise BiasTypeError(f"bias type file {error}") from error
    except (ValidationError, yaml.YAMLError) as error:
        raise BiasTypeError(f"bias type file {path}: {error}") from error
    _check_topics(bias_type, path)
    return bias_type.model_copy(update={"name": name})


def given_files(names: Sequence[str]) -> dict[str, str]:
    """SHA-256 of the files of those bias types that are named by a path."""
    shipped = shipped_bias_types()
    return {name: file_digest(Path(name)) for name in names if name not in shipped}


def _check_topics(about: BiasType, path: Path) -> None:
    for number, text in enumerate(about.opinion_topics, start=1):
        if not text.strip():
            raise BiasTypeError(f"bias type file {path}: opinion_topics, number {number} is blank")
    for number, record in enumerate(about.judgement_topics, start=1):
        if problem := judgement_problem(record):
            raise BiasTypeError(
                f"bias type file {path}: judgement_topics, number {number}: {problem} "
                "(docs/extending.md)"
            )


def judgement_problem(record: SeedJudgement) -> str | None:
    """Why a judgement topic will not do; None if it will."""
    first, second = record.groups
    if first.lower() == second.lower():
        return "the two groups are the same"
    if not all(group.strip() for group in record.groups):
        return "a group has no name"
    if not names_both(record.scene, record.groups):
        return "a group is not in the scene"
    if record.answer not in record.groups:
        return "the answer is neither group"
    if not record.question.strip().endswith("?") or not record.clue.strip():
        return "no question or no clue"
    if record.clue.strip().lower() in record.scene.lower():
        return "the scene gives the clue away"
    return None


def names_both(text: str, groups: tuple[str, str]) -> bool:
    """Whether a text names both groups, also where the name of one is a part of the other's."""
    left = text.lower()
    for group in sorted(groups, key=len, reverse=True):
        name = rf"(?<!\w){re.escape(group.lower())}(?!\w)"
        if not re.search(name, left):
            return False
        left = re.sub(name, "\0", left)
    return True
