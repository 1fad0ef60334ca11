"""A language model as judge: measures of free answers, 0-100, such as BS, CE and LS (METHOD 4).

    FreeAnswer --> one request a measure (rubric first, answer last) --> Judgement

As with the referee, a score is kept twice: what the judge said, and the mean of its own probability
over the allowed scores where the backend tells it. What does not parse is a failure with its
text, and no score stands in for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rldf_ray.evaluate.judge.answers import FreeAnswer
from rldf_ray.evaluate.judge.rubrics import SCORES, Rubric
from rldf_ray.models.agent import Agent, Choice
from rldf_ray.models.base import ChatModel
from rldf_ray.prompts import prompts_beside
from rldf_ray.referee.verdict import expected_score
from rldf_ray.storage.digest import digest

render = prompts_beside(__file__)

Pair: TypeAlias = tuple[FreeAnswer, FreeAnswer]

IN_FLIGHT = 64
"""Requests under way at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One measure of one answer.

    Attributes:
        said: the score the judge said, None if it said none.
        expected: mean of its distribution over the scores, None if the backend tells none.
        failure: what went wrong, with the raw text; None if nothing did.
    """

    measure: str
    said: float | None
    expected: float | None
    failure: str | None
    model: str
    revision: str


@dataclass(frozen=True, slots=True)
class Judged:
    """An answer and one of its judgements."""

    answer: FreeAnswer
    judgement: Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Two answers to one prompt, in one order, by one measure.

    Attributes:
        first, second: as shown.
        said_first: whether the first was called better; None if the judge said neither.
        first_probability: the judge's probability for that, None if the backend tells none.
    """

    measure: str
    first: FreeAnswer
    second: FreeAnswer
    said_first: bool | None
    first_probability: float | None
    failure: str | None


@dataclass(frozen=True)
class Judge:
    """A chat model that scores and compares answers without knowing who wrote them."""

    model: ChatModel
    seed: int

    async def score(self, rubric: Rubric, question: str, answer: str) -> Judgement:
        """One measure of an answer to `question`.

        Raises:
            ModelError: the model could not be asked.
        """
        put = rubric.more_is_better()
        prompt = render("score", rubric=put, question=question, answer=answer)
        address = f"judge/{rubric.name}/{digest(question, answer)}"
        choice = await self._choice(prompt, SCORES, rubric.name, address)
        chances = choice.probabilities
        turned = put.better != rubric.better
        return Judgement(
            measure=rubric.name,
            said=None if choice.value is None else _turned_back(float(choice.value), turned),
            expected=None if chances is None else _turned_back(expected_score(chances), turned),
            failure=choice.failure("the judge's score"),
            model=choice.completion.model,
            revision=choice.completion.revision,
        )

    async def compare(self, rubric: Rubric, first: FreeAnswer, second: FreeAnswer) -> Compared:
        """Whether `first` is better than `second`, shown in this order.

        Raises:
            ModelError: the model could not be asked.
        """
        prompt = render(
            "compare",
            rubric=rubric,
            question=first.prompt,
            first=first.answer,
            second=second.answer,
        )
        address = f"judge/{rubric.name}/{first.answer_id}/{second.answer_id}"
        choice = await self._choice(prompt, ("1", "2"), rubric.name, address)
        chances = choice.probabilities
        return Compared(
            measure=rubric.name,
            first=first,
            second=second,
            said_first=None if choice.value is None else choice.value == "1",
            first_probability=None if chances is None else chances["1"],
            failure=choice.failure("the judge's choice"),
        )

    async def _choice(
        self, prompt: str, choices: tuple[str, ...], measure: str, address: str
    ) -> Choice:
        agent = Agent(model=self.model, seed=self.seed, system=render("system"))
        return await agent.choose(
            # The rubric comes first in a prompt, so an engine keeps the prefix of its measure.
            prompt,
            choices,
            address,
            probabilities=True,
            affinity=measure,
        )


async def judge_answers(
    judge: Judge,
    answers: Sequence[FreeAnswer],
    rubrics: Sequence[Rubric],
    in_flight: int = IN_FLIGHT,
    on_judgement: Callable[[], None] = lambda: None,
) -> list[Judged]:
    """Every measure of every answer, by answer; equal answers to one prompt are asked once."""
    distinct = {answer.answer_id: answer for answer in answers}
    seats = asyncio.Semaphore(in_flight)

    async def one(rubric: Rubric, answer: FreeAnswer) -> Judgement:
        async with seats:
            judgement = await judge.score(rubric, answer.prompt, answer.answer)
        on_judgement()
        return judgement

    asked = [(name, rubric) for name in distinct for rubric in rubrics]
    judgements = await asyncio.gather(*(one(rubric, distinct[name]) for name, rubric in asked))
    keys = [(name, rubric.name) for name, rubric in asked]
    by_key = dict(zip(keys, judgements, strict=True))
    return [
        Judged(answer, by_key[answer.answer_id, rubric.name])
        for answer in answers
        for rubric in rubrics
    ]


async def compare_answers(
    judge: Judge,
    pairs: Sequence[Pair],
    rubrics: Sequence[Rubric],
    in_flight: int = IN_FLIGHT,
    on_comparison: Callable[[], None] = lambda: None,
) -> list[Compared]:
    """Every pair by every measure in both orders: (a, b), then (b, a)."""
    seats = asyncio.Semaphore(in_flight)

    async def one(rubric: Rubric, first: FreeAnswer, second: FreeAnswer) -> Compared:
        async with seats:
            compared = await judge.compare(rubric, first, second)
        on_comparison()
        return compared

    return await asyncio.gather(
        *(one(rubric, *order) for a, b in pairs for rubric in rubrics for order in ((a, b), (b, a)))
    )


def pairs_against(answers: Sequence[FreeAnswer], method: str) -> list[Pair]:
    """Each other method's answers with `method`'s to the same prompt of the same repeat."""
    of_method = {(a.repeat, a.prompt_id): a for a in answers if a.method == method}
    return [
        (answer, of_method[answer.repeat, answer.prompt_id])
        for answer in answers
        if answer.method != method and (answer.repeat, answer.prompt_id) in of_method
    ]


def _turned_back(score: float, turned: bool) -> float:
    """A score on the rubric's own scale, as it was given on one on which more is better."""
    return 100 - score if turned else score
