"""Topics (METHOD 1.1): the model writes them, seeds may be given, near-duplicates are removed."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from rapidfuzz import fuzz, process

from rldf_ray.models.agent import Agent
from rldf_ray.models.base import ChatModel, Completion, seed_of
from rldf_ray.plan import Plan, Topics
from rldf_ray.prompts import prompts_beside
from rldf_ray.records import Split, Topic, TopicKind, topic_id
from rldf_ray.topics.bias_type import (
    BiasType,
    SeedJudgement,
    bias_type,
    judgement_problem,
    names_both,
)
from rldf_ray.topics.overlap import NOTHING_EVALUATED, EvaluationTexts, Overlap, topic_texts

render = prompts_beside(__file__)

Seed = TypeVar("Seed", str, SeedJudgement)

JUDGEMENT_SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {
        "scene": {"type": "string", "maxLength": 300},
        "clue": {"type": "string", "maxLength": 200},
        "question": {"type": "string", "maxLength": 100},
        "groups": {
            "type": "array",
            "items": {"type": "string", "maxLength": 60},
            "minItems": 2,
            "maxItems": 2,
        },
        "answer": {"type": "string", "maxLength": 60},
    },
    "required": ["scene", "clue", "question", "groups", "answer"],
    "additionalProperties": False,
}


@dataclass(kw_only=True)
class TopicCounts:
    """What happened while the topics of one bias type were gathered."""

    seed: int = 0
    written: int = 0
    duplicates_dropped: int = 0
    overlaps_dropped: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class TopicWriter:
    """Gathers the topics of a run: seeds first, then the model's own until there are enough.

    A topic that repeats what the run is evaluated on is dropped, whoever wrote it: an evaluation
    item, or a topic of the `eval` split, whose prompts are kept for free answers.
    """

    plan: Plan
    model: ChatModel
    evaluated: EvaluationTexts = NOTHING_EVALUATED

    async def gather(self) -> tuple[list[Topic], dict[str, TopicCounts]]:
        """All topics, bias types in the plan's order, and what happened to each type's.

        Where the model writes too few good ones, there are fewer topics; none is made up.
        """
        gathered = await asyncio.gather(*(self._of_type(name) for name in self.plan.bias_types))
        counts = {name: c for name, (_, c) in zip(self.plan.bias_types, gathered, strict=True)}
        topics = [topic for of_type, _ in gathered for topic in of_type]
        return without_held_out(topics, counts), counts

    async def _of_type(self, name: str) -> tuple[list[Topic], TopicCounts]:
        about = bias_type(name)
        section = self.plan.topics
        counts = TopicCounts()
        wanted = wanted_by_kind(section.per_bias_type, section.judgement_share)
        seeds = wanted_by_kind(
            section.per_bias_type
            if section.seeds_per_bias_type is None
            else min(section.seeds_per_bias_type, section.per_bias_type),
            section.judgement_share,
        )
        topics: list[Topic] = []
        for kind, number in wanted.items():
            kept = Deduplicated(section.similarity)
            for topic in seed_topics(about, kind, self.plan)[: seeds[kind]]:
                counts.seed += self._keep(topic, kept, counts)
            for attempt in range(section.tries):
                missing = number - len(kept.topics)
                if missing <= 0:
                    break
                for topic in await self._write(about, kind, missing, attempt, counts):
                    if len(kept.topics) < number:
                        counts.written += self._keep(topic, kept, counts)
            topics += kept.topics
        return topics, counts

    def _keep(self, topic: Topic, kept: Deduplicated, counts: TopicCounts) -> int:
        overlap = self.evaluated.overlap(topic)
        if overlap is not None:
            counts.overlaps_dropped[overlap] += 1
            return 0
        added = kept.add(topic)
        counts.duplicates_dropped += not added
        return int(added)

    async def _write(
        self, about: BiasType, kind: TopicKind, missing: int, attempt: int, counts: TopicCounts
    ) -> list[Topic]:
        """One round of requests for `missing` topics of a kind, all at once."""
        batch = self.plan.topics.batch if kind == "opinion" else 1
        replies = await asyncio.gather(
            *(
                self._ask(about, kind, min(batch, missing - done), f"{attempt}/{done}")
                for done in range(0, missing, batch)
            )
        )
        parse = opinion_topics if kind == "opinion" else judgement_topics
        topics = []
        for reply in replies:
            for topic_or_reason in parse(reply.text, about.name, self.plan.topics):
                if isinstance(topic_or_reason, Topic):
                    topics.append(topic_or_reason)
                else:
                    counts.rejected[topic_or_reason] += 1
        return topics

    async def _ask(self, about: BiasType, kind: TopicKind, count: int, place: str) -> Completion:
        address = f"topics/{about.name}/{kind}/{place}"
        # Which seed topics are shown is drawn by the request's own seed.
        chance = random.Random(seed_of(self.plan.seed, address))
        schema: dict[str, object]
        if kind == "opinion":
            shown = shown_seeds(about.opinion_topics, about, kind, self.plan)
            examples = chance.sample(shown, min(4, len(shown)))
            prompt = render("opinion", examples=examples, count=count)
            schema = _opinion_schema(count)
        else:
            scenes = shown_seeds(about.judgement_topics, about, kind, self.plan)
            example = chance.choice(scenes).model_dump_json()
            prompt = render("judgement", example=example)
            schema = JUDGEMENT_SCHEMA
        system = render("system", about=about.about)
        return await Agent(model=self.model, seed=self.plan.seed, system=system).say(
            prompt,
            address,
            max_tokens=40 * count if kind == "opinion" else 240,
            temperature=1.0,
            top_p=0.95,
            json_schema=schema,
        )


class Deduplicated:
    """Topics of which no two are alike: an earlier one keeps a similar later one out."""

    def __init__(self, similarity: float) -> None:
        self.topics: list[Topic] = []
        self._texts: list[str] = []
        self._similarity = similarity

    def add(self, topic: Topic) -> bool:
        """Whether `topic` was added."""
        text = _comparable(topic.text)
        closest = process.extractOne(
            text, self._texts, scorer=fuzz.token_sort_ratio, score_cutoff=100 * self._similarity
        )
        if closest is not None:
            return False
        self.topics.append(topic)
        self._texts.append(text)
        return True


def wanted_by_kind(number: int, judgement_share: float) -> dict[TopicKind, int]:
    """How many topics of each kind make `number`."""
    judgement = round(number * judgement_share)
    return {"opinion": number - judgement, "judgement": judgement}


def seed_topics(about: BiasType, kind: TopicKind, plan: Plan) -> list[Topic]:
    """The topics of a bias type's file, in its order."""
    if kind == "opinion":
        return [_opinion(text, about.name, plan.topics, "seed") for text in about.opinion_topics]
    return [_judgement(seed, about.name, plan.topics, "seed") for seed in about.judgement_topics]


def shown_seeds(seeds: Sequence[Seed], about: BiasType, kind: TopicKind, plan: Plan) -> list[Seed]:
    """The seeds of a kind that whoever writes topics is shown: none that is held out.

    Args:
        seeds: as the bias type's file lists them.
    """
    topics = seed_topics(about, kind, plan)
    return [s for s, topic in zip(seeds, topics, strict=True) if topic.split != "eval"]


def opinion_topics(answer: str, name: str, section: Topics) -> Iterator[Topic | str]:
    """The topics in a model's answer; for one that will not do, the reason."""
    try:
        lines = TypeAdapter(dict[str, list[str]]).validate_json(answer, strict=True)["topics"]
    except (ValidationError, KeyError):
        yield "not the JSON asked for"
        return
    for line in lines:
        text = " ".join(line.split()).strip(" .-")
        if not 3 <= len(text.split()) <= 25:
            yield "not 3 to 25 words"
        else:
            yield _opinion(text, name, section, "written")


def judgement_topics(answer: str, name: str, section: Topics) -> Iterator[Topic | str]:
    """The scene in a model's answer, if its parts agree with each other; else the reason."""
    try:
        record = SeedJudgement.model_validate_json(answer)
    except ValueError:
        yield "not the JSON asked for"
        return
    problem = judgement_problem(record) or one_sided_clue(record)
    yield problem or _judgement(record, name, section, "written")


def one_sided_clue(record: SeedJudgement) -> str | None:
    """Why a clue teaches no reading: a student of clues that name one person answers with the name.

    It is asked of scenes that a model writes; what a person gives may be so.
    """
    both = names_both(record.clue, record.groups)
    return None if both else "the clue does not tell of both groups"


def split_of(identifier: str, section: Topics) -> Split:
    """The split a topic belongs to: by its id alone, so more topics do not move the others."""
    place = int(hashlib.sha256(f"split/{identifier}".encode()).hexdigest()[:12], 16) / 16**12
    if place < section.debate_share:
        return "debate"
    return "ppo" if place < section.debate_share + section.ppo_share else "eval"


def _opinion(text: str, name: str, section: Topics, origin: Any) -> Topic:
    identifier = topic_id(name, text)
    return Topic(
        topic_id=identifier,
        bias_type=name,
        kind="opinion",
        text=text,
        origin=origin,
        split=split_of(identifier, section),
    )


def _judgement(record: SeedJudgement, name: str, section: Topics, origin: Any) -> Topic:
    identifier = topic_id(name, record.scene)
    return Topic(
        topic_id=identifier,
        bias_type=name,
        kind="judgement",
        text=record.scene,
        origin=origin,
        split=split_of(identifier, section),
        clue=record.clue,
        question=record.question,
        groups=record.groups,
        answer=record.answer,
    )


def _opinion_schema(count: int) -> dict[str, object]:
    return {
        "type": "object",
        "properties": {
            "topics": {
                "type": "array",
                "items": {"type": "string", "minLength": 12, "maxLength": 110},
                "minItems": count,
                "maxItems": count,
            }
        },
        "required": ["topics"],
        "additionalProperties": False,
    }


def _comparable(text: str) -> str:
    return " ".join(text.lower().replace(",", " ").replace(".", " ").split())


def by_split(topics: Sequence[Topic], split: Split) -> list[Topic]:
    """The topics of one split, in their order."""
    return [topic for topic in topics if topic.split == split]


def overlaps_with_held_out(topics: Sequence[Topic]) -> list[Overlap | None]:
    """For each topic how it repeats one of the `eval` split; None for those themselves."""
    held_out = topic_texts(by_split(topics, "eval"))
    return [None if topic.split == "eval" else held_out.overlap(topic) for topic in topics]


def without_held_out(topics: Sequence[Topic], counts: Mapping[str, TopicCounts]) -> list[Topic]:
    """`topics` without those for training that repeat one of the `eval` split; `counts` says so."""
    kept = []
    for topic, overlap in zip(topics, overlaps_with_held_out(topics), strict=True):
        if overlap is None:
            kept.append(topic)
            continue
        mine = counts[topic.bias_type]
        mine.overlaps_dropped[overlap] += 1
        if topic.origin == "seed":
            mine.seed -= 1
        else:
            mine.written -= 1
    return kept
