"""One's own topics, transcripts or pairs, from JSON lines or Parquet, checked row by row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, model_validator

from rldf_ray.dataset import DatasetError
from rldf_ray.dataset.conversations import Answered, Asked, Preference, preference
from rldf_ray.dataset.texts import AnyText, Text
from rldf_ray.plan import Plan
from rldf_ray.records import PAIR_SCHEMA, Label, Split, Statement, Topic, context_of, topic_id
from rldf_ray.referee.labels import Threshold, label_round
from rldf_ray.topics.bias_type import SeedJudgement
from rldf_ray.topics.writer import judgement_problem, split_of

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

    @property
    def asked(self) -> tuple[str, ...]:
        """What a model reads of it, which must not repeat an evaluation item."""
        return (self.text, *filter(None, (self.clue, self.question)))


class TranscriptRow(Row):
    """A statement; its label comes from its score by the plan's threshold, unless it is given."""

    bias_type: AnyText
    topic: Text
    text: AnyText
    score: float = Field(ge=0, le=10)
    label: Label | None = None
    debate: AnyText = ""
    round: int = Field(1, ge=1, le=LARGEST)
    role: int = Field(0, ge=0, le=LARGEST)
    identity: AnyText = ""
    finish_reason: Literal["stop", "length"] = "stop"

    @property
    def asked(self) -> tuple[str, ...]:
        return (self.topic,)


class PairRow(Row):
    """A preference; texts may be plain or conversational, as TRL reads them."""

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
        return self

    @property
    def preference(self) -> Preference:
        return preference(self.prompt, self.chosen, self.rejected)

    @property
    def asked(self) -> tuple[str, ...]:
        return tuple(message.content for message in self.preference.prompt)


R = TypeVar("R", TopicRow, TranscriptRow, PairRow)


def topics_from(rows: Iterable[TopicRow], plan: Plan) -> list[Topic]:
    """Topics in the rows' order, each once; a split that is not given comes from the id.

    Raises:
        DatasetError: a bias type is not the plan's.
    """
    topics: dict[str, Topic] = {}
    for row in rows:
        _check_bias_type(row.bias_type, plan)
        name = topic_id(row.bias_type, row.text)
        topics[name] = Topic(
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
    return list(topics.values())


def statements_from(rows: Sequence[TranscriptRow], plan: Plan) -> list[Statement]:
    """Statements on opinion topics, in the rows' order.

    Raises:
        DatasetError: a bias type is not the plan's.
    """
    for row in rows:
        _check_bias_type(row.bias_type, plan)
    labels = _labels(rows, plan)
    return [_statement(row, label, plan) for row, label in zip(rows, labels, strict=True)]


def debated_topics(rows: Iterable[TranscriptRow]) -> list[Topic]:
    """The topics of transcripts; what was debated is in the debate split."""
    row_of = {topic_id(row.bias_type, row.topic): row for row in rows}
    return [
        Topic(
            topic_id=name,
            bias_type=row.bias_type,
            kind="opinion",
            text=row.topic,
            origin="seed",
            split="debate",
        )
        for name, row in row_of.items()
    ]


def pairs_from(rows: Iterable[PairRow]) -> pa.Table:
    """Pairs in the rows' order; pairs of one topic, or else one prompt, are held out together."""
    pairs = []
    for row in rows:
        said = row.preference
        pairs.append(
            {
                "prompt": [message.model_dump() for message in said.prompt],
                "chosen": [said.chosen.model_dump()],
                "rejected": [said.rejected.model_dump()],
                "bias_type": row.bias_type,
                "topic_id": topic_id(row.bias_type, row.topic or said.prompt[-1].content),
                "kind": "opinion",
                "clue_shown": False,
                "chosen_score": row.chosen_score,
                "rejected_score": row.rejected_score,
            }
        )
    return pa.Table.from_pylist(pairs, schema=PAIR_SCHEMA)


def without(topics: Iterable[Topic], taken: Iterable[Topic]) -> list[Topic]:
    """`topics` that are not `taken`; none of them is debated, as the debates are done."""
    names = {topic.topic_id for topic in taken}
    left = [topic for topic in topics if topic.topic_id not in names]
    return [replace(t, split="ppo") if t.split == "debate" else t for t in left]


def _check_bias_type(name: str, plan: Plan) -> None:
    if name not in plan.bias_types:
        allowed = ", ".join(plan.bias_types)
        raise DatasetError(f"bias type {name!r} is not in the plan, which has {allowed}")


def _labels(rows: Sequence[TranscriptRow], plan: Plan) -> list[Label | None]:
    """Given labels, and by score within a round where there is none."""
    rounds: dict[tuple[object, ...], list[int]] = {}
    for place, row in enumerate(rows):
        key = (row.bias_type, row.topic, row.debate, row.round)
        rounds.setdefault(key, []).append(place)
    threshold = Threshold(plan.referee.threshold_kind, plan.referee.threshold)
    labels: list[Label | None] = [row.label for row in rows]
    for places in rounds.values():
        by_score = label_round([rows[place].score for place in places], threshold)
        for place, label in zip(places, by_score, strict=True):
            labels[place] = labels[place] or label
    return labels


def _statement(row: TranscriptRow, label: Label | None, plan: Plan) -> Statement:
    name = topic_id(row.bias_type, row.topic)
    topic = Topic(
        topic_id=name,
        bias_type=row.bias_type,
        kind="opinion",
        text=row.topic,
        origin="seed",
        split="debate",
    )
    return Statement(
        run_id=plan.digest(),
        debate_id=f"{name}-{row.debate or 0}",
        topic_id=name,
        bias_type=row.bias_type,
        kind="opinion",
        clue_shown=False,
        context=context_of(topic, False).text,
        round=row.round,
        role=row.role,
        identity=row.identity,
        text=row.text,
        finish_reason=row.finish_reason,
        score=row.score,
        expected_score=None,
        rank=None,
        label=label,
        label_source="said",
        failure=None if label else "no label: equal scores in the round",
        referee_kind=IMPORTED,
        debater_model=IMPORTED,
        debater_revision="",
        referee_model=IMPORTED,
        referee_revision="",
        prompt_tokens=0,
        cached_tokens=0,
        generated_tokens=0,
        seed=0,
    )
