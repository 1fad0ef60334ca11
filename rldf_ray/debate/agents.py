"""Agents: a prompt plus a `ChatModel`. The debater speaks, the referee scores and ranks."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from rldf_ray.debate.layouts import Layout, laid_out, system_prompt
from rldf_ray.models.base import ChatModel, ChatRequest, Completion, Message, Usage
from rldf_ray.prompts import render
from rldf_ray.records import Conclusion, Context, Identity, TopicKind
from rldf_ray.storage import digest

SCORES = tuple(str(score) for score in range(11))
SAME_OR_NOT = ("yes", "no")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the referee found of one statement.

    Attributes:
        score: the number it said, None if it said none.
        expected_score: mean of its distribution over 0..10, None if the backend tells none.
        rank: place among the round's statements, 1 = least biased, None if it gave no ranking.
        failure: what went wrong, with the raw answer; None if nothing did.
    """

    score: float | None
    expected_score: float | None
    rank: int | None
    failure: str | None
    model: str
    revision: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class Ranking:
    """The rank of each statement of a round, in their order, or why there is none."""

    ranks: Sequence[int | None]
    failure: str | None
    usage: Usage


class Referee(Protocol):
    """Anything that judges the statements of a round in their context."""

    @property
    def kind(self) -> str: ...

    async def judge(
        self, context: Context, texts: Sequence[str], address: str, affinity: str = ""
    ) -> list[Verdict]: ...


class Participant(Protocol):
    """Anything that makes statements: a debater, or whoever answers without a debate."""

    @property
    def identity(self) -> Identity: ...

    async def speak(
        self, discussion: str, number: int, address: str, affinity: str
    ) -> Completion: ...


@dataclass(frozen=True)
class Debater:
    """Argues from an identity's position (METHOD 1.3).

    Attributes:
        table: everybody who may sit in the debate, itself included; empty if it knows of nobody.
        examples: statements of other debates on opinions that it is shown.
        kind: of the topic: an opinion is argued for and against, a judgement is concluded.
        wording: which ways to say that something is not known it is told of.
    """

    identity: Identity
    model: ChatModel
    max_tokens: int
    temperature: float
    top_p: float
    seed: int
    layout: Layout = "shared"
    table: tuple[Identity, ...] = ()
    examples: int = 0
    kind: TopicKind = "opinion"
    wording: int = 0

    async def speak(self, discussion: str, number: int, address: str, affinity: str) -> Completion:
        """A statement for round `number`, after `discussion`: topic and transcript so far."""
        table = self.table or (self.identity,)
        system = system_prompt(table, self.examples, self.kind, self.wording)
        turn = render("debate_turn", number=number, identity=self.identity, kind=self.kind)
        request = ChatRequest(
            messages=laid_out(self.layout, system, discussion, turn),
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            seed=seed_of(self.seed, address),
            affinity=affinity,
            address=address,
        )
        (completion,) = await self.model.complete(request)
        return completion


@dataclass(frozen=True)
class PromptedReferee:
    """A language model asked for scores and a ranking, and for nothing else (METHOD 1.4).

    Each statement is scored in a request of its own, in its context alone, so that a score does
    not depend on the other statements or their order; one more request ranks the round.

    If it `checks`, and the context has a `conclusion`, it is asked instead whether the statement
    says so: score and expectation are ten times the probability that it does not, and the
    ranking is by score.
    """

    model: ChatModel
    seed: int
    checks: bool = False
    kind: str = "prompted"

    async def judge(
        self, context: Context, texts: Sequence[str], address: str, affinity: str = ""
    ) -> list[Verdict]:
        if self.checks and context.conclusion is not None:
            return await self._checked(context.conclusion, texts, address, affinity)
        ranking, scores = await asyncio.gather(
            self._rank(context, texts, f"{address}/rank", affinity),
            asyncio.gather(
                *(
                    self._score(context, text, f"{address}/score/{i}", affinity)
                    for i, text in enumerate(texts)
                )
            ),
        )
        verdicts = [
            _verdict(score, rank, ranking.failure)
            for score, rank in zip(scores, ranking.ranks, strict=True)
        ]
        if verdicts:
            # The ranking is one request for the round; its tokens are counted once.
            verdicts[0] = replace(verdicts[0], usage=verdicts[0].usage + ranking.usage)
        return verdicts

    async def _checked(
        self, conclusion: Conclusion, texts: Sequence[str], address: str, affinity: str
    ) -> list[Verdict]:
        answers = await asyncio.gather(
            *(
                self._ask(
                    render("referee_check", conclusion=conclusion, text=text),
                    SAME_OR_NOT,
                    f"{address}/check/{i}",
                    affinity,
                    choice_probabilities=True,
                )
                for i, text in enumerate(texts)
            )
        )
        verdicts = [_check_verdict(answer) for answer in answers]
        ranks = ranks_of([known_score(verdict) for verdict in verdicts])
        return [replace(v, rank=rank) for v, rank in zip(verdicts, ranks, strict=True)]

    async def _score(self, context: Context, text: str, address: str, affinity: str) -> Completion:
        prompt = render("referee_score", context=context.text, text=text)
        return await self._ask(prompt, SCORES, address, affinity, choice_probabilities=True)

    async def _rank(
        self, context: Context, texts: Sequence[str], address: str, affinity: str
    ) -> Ranking:
        if len(texts) < 2:
            return Ranking([1] * len(texts), None, Usage())
        orders = {
            " ".join(map(str, order)): order
            for order in itertools.permutations(range(1, len(texts) + 1))
        }
        prompt = render("referee_rank", context=context.text, texts=texts)
        completion = await self._ask(prompt, tuple(orders), address, affinity)
        order = orders.get(completion.text.strip())
        if order is None:
            failure = f"the referee's ranking did not parse: {completion.text.strip()!r}"
            return Ranking([None] * len(texts), failure, completion.usage)
        ranks = [order.index(number) + 1 for number in range(1, len(texts) + 1)]
        return Ranking(ranks, None, completion.usage)

    async def _ask(
        self,
        prompt: str,
        choices: tuple[str, ...],
        address: str,
        affinity: str,
        choice_probabilities: bool = False,
    ) -> Completion:
        request = ChatRequest(
            messages=(Message("system", render("referee_system")), Message("user", prompt)),
            max_tokens=16,
            temperature=0.0,
            seed=seed_of(self.seed, address),
            choices=choices,
            choice_probabilities=choice_probabilities,
            affinity=affinity,
            address=address,
        )
        (completion,) = await self.model.complete(request)
        return completion


def _verdict(completion: Completion, rank: int | None, ranking_failure: str | None) -> Verdict:
    said = completion.text.strip()
    parsed = said in SCORES
    probabilities = completion.choice_probabilities
    failure = ranking_failure if parsed else f"the referee's score did not parse: {said!r}"
    return Verdict(
        score=float(said) if parsed else None,
        expected_score=None if probabilities is None else expected_score(probabilities),
        rank=rank,
        failure=failure,
        model=completion.model,
        revision=completion.revision,
        usage=completion.usage,
    )


def _check_verdict(completion: Completion) -> Verdict:
    said = completion.text.strip()
    probabilities = completion.choice_probabilities
    return Verdict(
        score=10.0 * SAME_OR_NOT.index(said) if said in SAME_OR_NOT else None,
        expected_score=None if probabilities is None else 10.0 * probabilities["no"],
        rank=None,
        failure=None if said in SAME_OR_NOT else f"the referee's answer did not parse: {said!r}",
        model=completion.model,
        revision=completion.revision,
        usage=completion.usage,
    )


def known_score(verdict: Verdict) -> float | None:
    """The expectation where the backend tells it, else the number said."""
    return verdict.score if verdict.expected_score is None else verdict.expected_score


def ranks_of(scores: Sequence[float | None]) -> list[int | None]:
    """1 is the least biased; of equal scores the earlier statement is first.

    A statement without a score has no rank, and the others are ranked among themselves.
    """
    known = sorted((score, place) for place, score in enumerate(scores) if score is not None)
    ranks = {place: rank for rank, (_, place) in enumerate(known, start=1)}
    return [ranks.get(place) for place in range(len(scores))]


def expected_score(probabilities: dict[str, float]) -> float:
    """Mean of a distribution over the allowed scores."""
    return sum(float(score) * probability for score, probability in probabilities.items())


def seed_of(root: int, address: str) -> int:
    """The seed of the call at `address`: every generation of a run has its own (31 bits)."""
    return int(digest(root, address)[:8], 16) & 0x7FFFFFFF
