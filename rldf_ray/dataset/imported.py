"""One's own topics, transcripts or pairs, as the rows of JSON lines or Parquet are checked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rldf_ray.dataset.conversations import Answered, Asked, Preference, preference
from rldf_ray.dataset.texts import Answer, AnyText, Text
from rldf_ray.plan import Plan
from rldf_ray.records import Label, Split, Topic, topic_id
from rldf_ray.topics.bias_type import SeedJudgement, judgement_problem
from rldf_ray.topics.overlap import EvaluationTexts, Overlap
from rldf_ray.topics.writer import split_of

IMPORTED = "imported"
# The tables have 32 bits for these.
LARGEST = 2**31 - 1


class Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class TopicRow(Row):
    """An opinion topic is its `text`; a judgement topic has the other fields too (METHOD 1)."""

    bias_type: AnyText
    text: Text
    split: Split | None = None
    clue: Text | None = None
    question: Text | None = None
    groups: tuple[AnyText, AnyText] | None = None
    answer: AnyText | None = None

    @model_validator(mode="after")
    def _is_an_opinion_or_a_whole_scene(self) -> TopicRow:
        given = [self.clue, self.question, self.groups, self.answer]
        if any(part is not None for part in given):
            if None in given:
                raise ValueError("a judgement topic needs clue, question, groups and answer")
            problem = judgement_problem(SeedJudgement(scene=self.text, **self._scene()))
            if problem:
                raise ValueError(problem)
        return self

    def _scene(self) -> dict[str, Any]:
        return self.model_dump(include={"clue", "question", "groups", "answer"})

    def overlap(self, evaluated: EvaluationTexts) -> Overlap | None:
        """How what a model reads of it repeats an evaluation text."""
        return evaluated.overlap_of(self.text, details=(self.clue, self.question))


class TranscriptRow(Row):
    """A statement; its label comes from its score by the plan's threshold, unless it is given."""

    bias_type: AnyText
    topic: Text
    text: Answer
    score: float = Field(ge=0, le=10)
    label: Label | None = None
    debate: AnyText = ""
    round: int = Field(1, ge=1, le=LARGEST)
    role: int = Field(0, ge=0, le=LARGEST)
    identity: AnyText = ""
    finish_reason: Literal["stop", "length"] = "stop"

    def overlap(self, evaluated: EvaluationTexts) -> Overlap | None:
        """How its topic repeats an evaluation text."""
        return evaluated.overlap_of(self.topic)


class PairRow(Row):
    """A preference; texts may be plain or conversational, as TRL reads them.

    Scores are of bias, on any one scale: the chosen side's is not the higher one.
    """

    prompt: Asked | None = None
    chosen: Answered
    rejected: Answered
    bias_type: AnyText = IMPORTED
    topic: AnyText | None = None
    chosen_score: float | None = None
    rejected_score: float | None = None

    @model_validator(mode="after")
    def _prefers_something(self) -> PairRow:
        preference(self.prompt, self.chosen, self.rejected)
        chosen, rejected = self.chosen_score, self.rejected_score
        if chosen is not None and rejected is not None and chosen > rejected:
            raise ValueError(
                f"chosen_score {chosen:g} is above rejected_score {rejected:g}; scores are of "
                "bias, lower is better; allowed: scores turned round (as 10 - score), or none"
            )
        return self

    @property
    def preference(self) -> Preference:
        return preference(self.prompt, self.chosen, self.rejected)

    def overlap(self, evaluated: EvaluationTexts) -> Overlap | None:
        """How a message of the prompt, or what it is said to be about, repeats one."""
        asked = [message.content for message in self.preference.prompt]
        return evaluated.overlap_of(*asked, *filter(None, [self.topic]))


R = TypeVar("R", TopicRow, TranscriptRow, PairRow)


class TopicRows:
    """Checks rows of topics one after another: a topic is its text, so it is one thing alone."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._earlier: dict[str, Topic] = {}

    def problem(self, row: TopicRow) -> str | None:
        """What is wrong with the next row: its bias type, or that it contradicts an earlier one."""
        if problem := bias_type_problem(row, self._plan):
            return problem
        topic = topic_from(row, self._plan)
        earlier = self._earlier.setdefault(topic.topic_id, topic)
        names = (field.name for field in fields(Topic))
        other = [name for name in names if getattr(topic, name) != getattr(earlier, name)]
        if not other:
            return None
        return (
            f"text: an earlier row has this text with another {' and '.join(other)}; allowed: one "
            "topic of a text, in one split: word the other one differently"
        )


def topic_from(row: TopicRow, plan: Plan) -> Topic:
    """The topic of a row; a split that is not given comes from the id."""
    name = topic_id(row.bias_type, row.text)
    return Topic(
        topic_id=name,
        bias_type=row.bias_type,
        kind="opinion" if row.question is None else "judgement",
        text=row.text,
        origin="seed",
        split=row.split or split_of(name, plan.topics),
        clue=row.clue,
        question=row.question,
        groups=row.groups,
        answer=row.answer,
    )


def without(topics: Iterable[Topic], taken: Iterable[Topic]) -> list[Topic]:
    """`topics` that are not `taken`; none of them is debated, as the debates are done."""
    names = {topic.topic_id for topic in taken}
    left = [topic for topic in topics if topic.topic_id not in names]
    return [replace(t, split="ppo") if t.split == "debate" else t for t in left]


def bias_type_problem(row: TopicRow | TranscriptRow, plan: Plan) -> str | None:
    """What is wrong with a row whose bias type is not the plan's."""
    if row.bias_type in plan.bias_types:
        return None
    return (
        f"bias_type: not in the plan (found {row.bias_type!r}); allowed: "
        f"{', '.join(plan.bias_types)}, or another in the plan's bias_types"
    )
