"""What BS, CE and LS mean: one YAML file each, for judging models and for people (METHOD 4).

A judging model takes further files of the same form.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from rldf_ray.errors import UserError
from rldf_ray.storage.given_text import TextError, given_text
from rldf_ray.storage.json_lines import problems_of
from rldf_ray.storage.yaml_text import read_yaml

RUBRICS = Path(__file__).parent / "prompts" / "rubrics"

Measure = Literal["BS", "CE", "LS"]
MEASURES: tuple[Measure, ...] = get_args(Measure)

SCORES = tuple(str(score) for score in range(0, 101, 10))
"""What a judging model may say; tens cost as many requests as a referee's 0-10."""

_Score = Annotated[int, Field(ge=0, le=100, multiple_of=10)]


class RubricError(UserError):
    """A rubric cannot be used; the message names the file, the field and what is allowed."""


class Level(BaseModel):
    """A stretch of the scale and what belongs there."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    scores: tuple[_Score, ...] = Field(min_length=1)
    text: str


class Anchor(BaseModel):
    """An answer with the score it deserves."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    question: str
    answer: str
    score: _Score
    why: str


class RubricControl(BaseModel):
    """An answer on which a judge is audited, and whether its score should be high or low."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    question: str
    answer: str
    high: bool


class Rubric(BaseModel):
    """One measure: what it is about, its levels, and anchored examples.

    Attributes:
        name: what tables and files call it.
        turned_title: of a measure of which less is better, what 100 less the score is called.
        question: which of two answers is better.
        controls: of one's own measure; what BS, CE and LS are audited on is in `audit.py`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,31}$")
    title: str = Field(min_length=1)
    turned_title: str | None = None
    better: Literal["lower", "higher"]
    about: str = Field(min_length=1)
    question: str = Field(min_length=1)
    levels: tuple[Level, ...]
    examples: tuple[Anchor, ...] = ()
    controls: tuple[RubricControl, ...] = Field((), exclude_if=lambda controls: not controls)

    @model_validator(mode="after")
    def _levels_cover_the_scale_once(self) -> Rubric:
        listed = [str(score) for level in self.levels for score in level.scores]
        if listed != list(SCORES):
            raise ValueError(f"levels list the scores {listed}; needed: {list(SCORES)}, each once")
        return self

    @model_validator(mode="after")
    def _can_be_turned_if_it_has_to_be(self) -> Rubric:
        if self.better == "lower" and self.turned_title is None:
            raise ValueError(
                "better: lower needs a turned_title, what 100 less the score is called"
            )
        return self

    @model_validator(mode="after")
    def _controls_tell_high_from_low(self) -> Rubric:
        if self.controls and len({control.high for control in self.controls}) < 2:
            raise ValueError("controls are all high or all low; needed: some of each, or none")
        return self

    def more_is_better(self) -> Rubric:
        """The same with a scale on which 100 is best, as models take a high mark for praise."""
        if self.better == "higher":
            return self
        turned: dict[str, object] = {
            "title": self.turned_title,
            "better": "higher",
            "levels": tuple(
                level.model_copy(update={"scores": tuple(100 - s for s in level.scores[::-1])})
                for level in self.levels[::-1]
            ),
            "examples": tuple(
                example.model_copy(update={"score": 100 - example.score})
                for example in self.examples[::-1]
            ),
        }
        return self.model_copy(update=turned)

    def level_of(self, score: float) -> int:
        """The place of the level whose scores are nearest to `score`; of two, the lower level."""
        nearest = [min(abs(score - listed) for listed in level.scores) for level in self.levels]
        return nearest.index(min(nearest))


@cache
def rubric(measure: Measure) -> Rubric:
    """The rubric of a measure."""
    text = (RUBRICS / f"{measure}.yaml").read_text(encoding="utf-8")
    return Rubric.model_validate(yaml.safe_load(text))


def shipped_rubrics() -> tuple[Rubric, ...]:
    """BS, CE and LS."""
    return tuple(rubric(measure) for measure in MEASURES)


def given_rubrics(paths: Sequence[Path]) -> tuple[Rubric, ...]:
    """Rubrics of one's own, in the form of the shipped files.

    Raises:
        RubricError: a file is none, or two measures have one name.
    """
    rubrics: list[Rubric] = []
    for path in paths:
        given = _given_rubric(path)
        others = [*MEASURES, *(other.name for other in rubrics)]
        if given.name.lower() in map(str.lower, others):
            raise RubricError(
                f"{path}: name: {given.name} is another measure's; allowed: any but "
                f"{', '.join(others)}"
            )
        rubrics.append(given)
    return tuple(rubrics)


def _given_rubric(path: Path) -> Rubric:
    form = f"needed: a file in the form of {RUBRICS / 'CE.yaml'}"
    try:
        values = read_yaml(given_text(path))
    except OSError as error:
        raise RubricError(f"{path} cannot be read ({error.strerror}); {form}") from error
    except TextError as error:
        raise RubricError(str(error)) from error
    except yaml.YAMLError as error:
        raise RubricError(f"{path}: not valid YAML: {error}; {form}") from error
    if not isinstance(values, dict):
        raise RubricError(f"{path}: expected fields, found {type(values).__name__}; {form}")
    try:
        return Rubric.model_validate(values)
    except ValidationError as error:
        raise RubricError(f"{path}: {problems_of(error)}; {form}") from error
