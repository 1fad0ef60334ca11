"""A referee that is a language model, asked for scores and a ranking (METHOD 1.4)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rldf_ray.models.base import ChatModel, ChatRequest, Completion, Message, Usage, seed_of
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
        answers = await asyncio.gather(
            *(
                self._ask(
                    render("check", conclusion=conclusion, text=text),
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
        prompt = render("score", context=context.text, text=text)
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
        prompt = render("rank", context=context.text, texts=texts)
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
            messages=(Message("system", render("system")), Message("user", prompt)),
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
