"""A referee that is a language model, asked for scores and a ranking (METHOD 1.4)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rldf_ray.models.agent import Agent, Choice
from rldf_ray.models.base import ChatModel, Usage
from rldf_ray.prompts import prompts_beside
from rldf_ray.records import Conclusion, Context
from rldf_ray.referee.verdict import SCORES, Verdict, expected_score, known_score, ranks_of

render = prompts_beside(__file__)

SAME_OR_NOT = ("yes", "no")


@dataclass(frozen=True, slots=True)
class Ranking:
    """The rank of each statement of a round, in their order, or why there is none."""

    ranks: Sequence[int | None]
    failure: str | None
    usage: Usage


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
        choices = await asyncio.gather(
            *(
                self._choose(
                    render("check", conclusion=conclusion, text=text),
                    SAME_OR_NOT,
                    f"{address}/check/{i}",
                    affinity,
                    probabilities=True,
                )
                for i, text in enumerate(texts)
            )
        )
        verdicts = [_check_verdict(choice) for choice in choices]
        ranks = ranks_of([known_score(verdict) for verdict in verdicts])
        return [replace(v, rank=rank) for v, rank in zip(verdicts, ranks, strict=True)]

    async def _score(self, context: Context, text: str, address: str, affinity: str) -> Choice:
        prompt = render("score", context=context.text, text=text)
        return await self._choose(prompt, SCORES, address, affinity, probabilities=True)

    async def _rank(
        self, context: Context, texts: Sequence[str], address: str, affinity: str
    ) -> Ranking:
        if len(texts) < 2:
            return Ranking([1] * len(texts), None, Usage())
        orders = {
            " ".join(map(str, order)): order
            for order in itertools.permutations(range(1, len(texts) + 1))
        }
        prompt = render("rank", context=context.text, texts=texts)
        choice = await self._choose(prompt, tuple(orders), address, affinity)
        usage = choice.completion.usage
        if choice.value is None:
            return Ranking([None] * len(texts), choice.failure("the referee's ranking"), usage)
        order = orders[choice.value]
        ranks = [order.index(number) + 1 for number in range(1, len(texts) + 1)]
        return Ranking(ranks, None, usage)

    async def _choose(
        self,
        prompt: str,
        choices: tuple[str, ...],
        address: str,
        affinity: str,
        probabilities: bool = False,
    ) -> Choice:
        referee = Agent(model=self.model, seed=self.seed, system=render("system"))
        return await referee.choose(
            prompt, choices, address, probabilities=probabilities, affinity=affinity
        )


def _verdict(score: Choice, rank: int | None, ranking_failure: str | None) -> Verdict:
    expected = None if score.probabilities is None else expected_score(score.probabilities)
    return Verdict(
        score=None if score.value is None else float(score.value),
        expected_score=expected,
        rank=rank,
        # A score that did not parse hides what went wrong with the ranking.
        failure=score.failure("the referee's score") or ranking_failure,
        model=score.completion.model,
        revision=score.completion.revision,
        usage=score.completion.usage,
    )


def _check_verdict(same: Choice) -> Verdict:
    """The score is ten times the probability that the statement does not say the conclusion."""
    expected = None if same.probabilities is None else 10.0 * same.probabilities["no"]
    return Verdict(
        score=None if same.value is None else 10.0 * SAME_OR_NOT.index(same.value),
        expected_score=expected,
        rank=None,
        failure=same.failure("the referee's answer"),
        model=same.completion.model,
        revision=same.completion.revision,
        usage=same.completion.usage,
    )
