"""Label scales: the ordered labels that a text can be given. Data files, found by being there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from rldf_ray.errors import UserError
from rldf_ray.storage.folders import visible
from rldf_ray.storage.home_path import home_path
from rldf_ray.storage.json_lines import problems_of
from rldf_ray.storage.yaml_text import read_yaml

Distribution = tuple[float, ...]
"""Probabilities of a scale's labels, in the scale's order; they sum to 1."""


class ScaleError(UserError):
    """A label scale is not there, or is none; the message names file and field."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Label(_Strict):
    """One label of a scale.

    Attributes:
        meaning: what a text with this label is like, as agents are told.
        position: where it lies on the scale, in steps; None is its place in the list.
        code: the number that tables show for it; None is its position.
    """

    name: str = Field(min_length=1)
    meaning: str = Field(min_length=1)
    position: float | None = None
    code: int | None = None


class _File(_Strict):
    name: str = ""
    title: str
    question: str
    nominal: bool = False
    labels: tuple[Label, ...] = Field(min_length=2)

    @model_validator(mode="after")
    def _ordered(self) -> _File:
        names = [label.name for label in self.labels]
        if len(set(names)) < len(names):
            raise ValueError("two labels have one name")
        given = [label.position for label in self.labels]
        if any(p is None for p in given) and any(p is not None for p in given):
            raise ValueError("some labels have a position and some have none")
        positions = [p for p in given if p is not None]
        if any(b <= a for a, b in pairwise(positions)):
            raise ValueError("positions do not rise from label to label")
        return self


@dataclass(frozen=True)
class LabelScale:
    """The labels of a scale, in order, a step apart unless it says otherwise (as in Table 9).

    Attributes:
        question: what is asked about a text; `{target}` stands for the item's target.
        nominal: the labels have no order, so any two are one step apart.
    """

    name: str
    title: str
    question: str
    labels: tuple[Label, ...]
    nominal: bool = False

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(label.name for label in self.labels)

    @cached_property
    def positions(self) -> tuple[float, ...]:
        given = [label.position for label in self.labels]
        return tuple(float(i) if p is None else p for i, p in enumerate(given))

    @property
    def width(self) -> float:
        """The distance of the two labels farthest apart, in steps."""
        return 1.0 if self.nominal else self.positions[-1] - self.positions[0]

    def code(self, label: str) -> float:
        """The number that tables show for a label."""
        place = self.names.index(label)
        code = self.labels[place].code
        return self.positions[place] if code is None else code

    def distance(self, one: str, other: str) -> float:
        """How far two labels lie apart, in steps."""
        if self.nominal:
            return float(one != other)
        places = self.names.index(one), self.names.index(other)
        return abs(self.positions[places[0]] - self.positions[places[1]])

    def aligned(self, by_name: Mapping[str, float]) -> Distribution:
        """Probabilities in the scale's order, whatever order they came in; a missing label is 0.

        Raises:
            KeyError: a label is not of this scale.
        """
        unknown = sorted(set(by_name) - set(self.names))
        if unknown:
            raise KeyError(unknown[0])
        return tuple(float(by_name.get(name, 0.0)) for name in self.names)

    def certain(self, label: str) -> Distribution:
        """The distribution that holds one label possible."""
        return tuple(float(name == label) for name in self.names)

    def mean_position(self, distribution: Sequence[float]) -> float:
        """Where a distribution lies on the scale, in steps."""
        return sum(p * x for p, x in zip(distribution, self.positions, strict=True))

    def label_of(self, distribution: Sequence[float]) -> str:
        """The likeliest label; of equal ones, that nearest the mean position (a choice)."""
        mean = self.mean_position(distribution)
        most = max(distribution)
        ranked = sorted(
            (abs(x - mean), place)
            for place, (p, x) in enumerate(zip(distribution, self.positions, strict=True))
            if most - p < 1e-12
        )
        return self.names[ranked[0][1]]

    @property
    def has_target(self) -> bool:
        """Whether question or labels speak of the item's target."""
        texts = (self.question, *(label.meaning for label in self.labels))
        return any("{target}" in text for text in texts)

    def named(self, names: Sequence[str]) -> LabelScale:
        """This scale with other names for its labels, in its order; with none, itself."""
        if not names:
            return self
        pairs = zip(self.labels, names, strict=True)
        labels = tuple(label.model_copy(update={"name": name}) for label, name in pairs)
        return replace(self, labels=labels)

    def asked(self, target: str) -> str:
        """The question about a text with this target."""
        return self.question.replace("{target}", target)


def scale_names() -> list[str]:
    """The scales that ship, by name."""
    return sorted(_shipped())


def _shipped() -> dict[str, Path]:
    return {path.stem: path for path in visible(Path(__file__).parent / "scales", "*.yaml")}


def kept_scale(given: str | Mapping[str, Any]) -> str | dict[str, Any]:
    """A scale as a plan keeps it: a shipped one by its name, one's own with all that it says.

    So a study's digest and its plan.yaml hold a scale of one's own, whatever becomes of the file.

    Raises:
        ScaleError: there is none, or it is none; the message names file and field.
    """
    if not isinstance(given, str):
        return _kept(given, "settings.scale")
    if given in _shipped():
        return given
    path = home_path(given)
    if not path.is_file():
        raise ScaleError(
            f"settings.scale={given!r}: no such scale; allowed: {', '.join(scale_names())}, or a "
            "YAML file of title, question and labels (name, meaning)"
        )
    return _kept(_written(path), f"label scale {path}", path.stem)


def load_scale(given: str | Mapping[str, Any]) -> LabelScale:
    """The scale of a plan: a shipped one by name, or one's own, as a file or as a plan keeps it.

    Raises:
        ScaleError: there is none, or it is none; the message names file and field.
    """
    kept = kept_scale(given)
    if isinstance(kept, str):
        path = _shipped()[kept]
        kept = _kept(_written(path), f"label scale {path}", path.stem)
    file = _File.model_validate(kept)
    return LabelScale(file.name, file.title, file.question, file.labels, file.nominal)


def _written(path: Path) -> Any:
    try:
        return read_yaml(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ScaleError(f"label scale {path}: {error}") from error


def _kept(written: Any, where: str, stem: str = "") -> dict[str, Any]:
    """What a scale says, without what it leaves to the defaults."""
    try:
        file = _File.model_validate(written)
    except ValidationError as error:
        raise ScaleError(f"{where}: {problems_of(error)}") from error
    named = file.model_copy(update={"name": file.name or stem})
    return named.model_dump(mode="json", exclude_defaults=True)
