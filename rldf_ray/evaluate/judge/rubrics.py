"""What BS, CE and LS mean: one YAML file each, for judging models and for people (METHOD 4)."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

RUBRICS = Path(__file__).parent / "prompts" / "rubrics"

Measure = Literal["BS", "CE", "LS"]
MEASURES: tuple[Measure, ...] = get_args(Measure)

SCORES = tuple(str(score) for score in range(0, 101, 10))
"""What a judging model may say; tens cost as many requests as a referee's 0-10."""

_Score = Annotated[int, Field(ge=0, le=100, multiple_of=10)]


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


class Rubric(BaseModel):
    """One measure: what it is about, its levels, and anchored examples."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Measure
    title: str
    turned_title: str | None = None
    better: Literal["lower", "higher"]
    about: str
    question: str
    levels: tuple[Level, ...]
    examples: tuple[Anchor, ...]

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
