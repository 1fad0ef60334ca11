"""The nouns of the project and their Arrow schemas. Everything on disk is a table of one of these.

Topic -> Debate -> Statement (a row of the transcripts) -> sft, pairs, prompts
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import Literal

import pyarrow as pa

TopicKind = Literal["opinion", "judgement"]
Label = Literal["high", "low"]
LabelSource = Literal["said", "expected"]
Split = Literal["debate", "ppo", "eval"]


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a debater is: `You are {article} {name}`, with a background to argue from."""

    name: str
    article: str
    background: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """Something to debate.

    An opinion topic is its `text`. A judgement topic is a scene (`text`) with two people of the
    bias type's `groups`, a `question`, a `clue` that settles it and the `answer` the clue gives.
    """

    topic_id: str
    bias_type: str
    kind: TopicKind
    text: str
    origin: Literal["seed", "written"]
    split: Split
    clue: str | None = None
    question: str | None = None
    groups: tuple[str, str] | None = None
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What a scene lets one conclude: the answer to its question, None if it leaves it open."""

    question: str
    answer: str | None


@dataclass(frozen=True, slots=True)
class Context:
    """What a statement answers.

    Attributes:
        text: as debaters and referee read it; where there is a conclusion, its question comes last.
        conclusion: what a scene lets one conclude; None for an opinion topic, or if nobody knows.
    """

    text: str
    conclusion: Conclusion | None = None

    @property
    def question(self) -> str | None:
        """The scene's question; None without a conclusion."""
        return None if self.conclusion is None else self.conclusion.question

    @property
    def account(self) -> str:
        """The text without the question."""
        return self.text.removesuffix(self.question or "").strip()


def topic_id(bias_type: str, text: str) -> str:
    """A topic's id depends on its bias type's name and its text, so it is the same in every run."""
    return f"{PurePath(bias_type).stem}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


@dataclass(frozen=True, slots=True)
class Debate:
    """One instance: a topic, debated once. `clue_shown` is False for opinion topics."""

    debate_id: str
    topic: Topic
    clue_shown: bool
    identities: tuple[Identity, ...]

    @property
    def address(self) -> str:
        """What the addresses of all its requests begin with."""
        return self.debate_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One debater's statement of one round, as the referee judged it (METHOD 1 and 2).

    Attributes:
        score: what the referee said, 0 (no stereotyping) to 10 (extreme); None if it said none.
        expected_score: mean of the referee's own distribution over the allowed scores; None where
            the referee's backend gives no probabilities.
        rank: place in the round, 1 = least biased; None if the referee gave no ranking.
        label: high or low bias; None if the statement could not be labelled.
        label_source: the score that labels it; "said" where the plan wants the expectation and
            the referee's backend gave no probabilities for the whole round.
        failure: why the statement carries no label, None if it does.
        prompt_tokens, cached_tokens, generated_tokens: of the debater's request and the referee's
            requests for this statement together.
        finish_reason: "stop" if the debater ended by itself, "length" if it was cut.
    """

    run_id: str
    debate_id: str
    topic_id: str
    bias_type: str
    kind: TopicKind
    clue_shown: bool
    context: str
    round: int
    role: int
    identity: str
    text: str
    finish_reason: str
    score: float | None
    expected_score: float | None
    rank: int | None
    label: Label | None
    label_source: LabelSource
    failure: str | None
    referee_kind: str
    debater_model: str
    debater_revision: str
    referee_model: str
    referee_revision: str
    prompt_tokens: int
    cached_tokens: int
    generated_tokens: int
    seed: int

    @property
    def label_score(self) -> float | None:
        """The score the label came from."""
        return self.expected_score if self.label_source == "expected" else self.score


_MESSAGES = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))

TOPIC_SCHEMA = pa.schema(
    [
        ("topic_id", pa.string()),
        ("bias_type", pa.string()),
        ("kind", pa.string()),
        ("text", pa.string()),
        ("origin", pa.string()),
        ("split", pa.string()),
        ("clue", pa.string()),
        ("question", pa.string()),
        ("groups", pa.list_(pa.string())),
        ("answer", pa.string()),
    ]
)

STATEMENT_SCHEMA = pa.schema(
    [
        ("run_id", pa.string()),
        ("debate_id", pa.string()),
        ("topic_id", pa.string()),
        ("bias_type", pa.string()),
        ("kind", pa.string()),
        ("clue_shown", pa.bool_()),
        ("context", pa.string()),
        ("round", pa.int32()),
        ("role", pa.int32()),
        ("identity", pa.string()),
        ("text", pa.string()),
        ("finish_reason", pa.string()),
        ("score", pa.float64()),
        ("expected_score", pa.float64()),
        ("rank", pa.int32()),
        ("label", pa.string()),
        ("label_source", pa.string()),
        ("failure", pa.string()),
        ("referee_kind", pa.string()),
        ("debater_model", pa.string()),
        ("debater_revision", pa.string()),
        ("referee_model", pa.string()),
        ("referee_revision", pa.string()),
        ("prompt_tokens", pa.int64()),
        ("cached_tokens", pa.int64()),
        ("generated_tokens", pa.int64()),
        ("seed", pa.int64()),
    ]
)

SFT_SCHEMA = pa.schema(
    [
        ("prompt", _MESSAGES),
        ("completion", _MESSAGES),
        ("bias_type", pa.string()),
        ("topic_id", pa.string()),
        ("kind", pa.string()),
        ("clue_shown", pa.bool_()),
        ("score", pa.float64()),
    ]
)

PAIR_SCHEMA = pa.schema(
    [
        ("prompt", _MESSAGES),
        ("chosen", _MESSAGES),
        ("rejected", _MESSAGES),
        ("bias_type", pa.string()),
        ("topic_id", pa.string()),
        ("kind", pa.string()),
        ("clue_shown", pa.bool_()),
        ("chosen_score", pa.float64()),
        ("rejected_score", pa.float64()),
    ]
)

PROMPT_SCHEMA = pa.schema(
    [
        ("prompt", _MESSAGES),
        ("prompt_id", pa.string()),
        ("bias_type", pa.string()),
        ("topic_id", pa.string()),
        ("kind", pa.string()),
        ("clue_shown", pa.bool_()),
        ("split", pa.string()),
    ]
)


def table_of(records: Iterable[Topic] | Iterable[Statement], schema: pa.Schema) -> pa.Table:
    """An Arrow table of records, in their order."""
    return pa.Table.from_pylist([asdict(record) for record in records], schema=schema)


def topics_of(table: pa.Table) -> list[Topic]:
    """The inverse of `table_of` for topics."""
    return [
        Topic(**{**row, "groups": tuple(row["groups"]) if row["groups"] else None})
        for row in table.to_pylist()
    ]


def statements_of(table: pa.Table) -> list[Statement]:
    """The inverse of `table_of` for statements."""
    return [Statement(**row) for row in table.to_pylist()]


def scene_of(topic: Topic, clue_shown: bool) -> str:
    """A scene as it is told, with its clue or without."""
    return f"{topic.text} {topic.clue}" if clue_shown else topic.text


def context_of(topic: Topic, clue_shown: bool) -> Context:
    """What is debated and what a statement is judged in: the topic, or the scene and question.

    A scene lets one conclude what the topic's record says of it (METHOD 1.1).
    """
    if topic.kind == "opinion":
        return Context(topic.text)
    assert topic.question is not None
    conclusion = Conclusion(topic.question, topic.answer if clue_shown else None)
    return Context(f"{scene_of(topic, clue_shown)} {topic.question}", conclusion)
