"""A language model as judge: BS, CE and LS of free answers, 0-100 (METHOD 4).

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
from rldf_ray.evaluate.judge.rubrics import MEASURES, SCORES, Measure, rubric
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

    measure: Measure
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

    measure: Measure
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

    async def score(self, measure: Measure, question: str, answer: str) -> Judgement:
        """One measure of an answer to `question`.

        Raises:
            ModelError: the model could not be asked.
        """
        put = rubric(measure).more_is_better()
        prompt = render("score", rubric=put, question=question, answer=answer)
        address = f"judge/{measure}/{digest(question, answer)}"
        choice = await self._choice(prompt, SCORES, measure, address)
        chances = choice.probabilities
        turned = put.better != rubric(measure).better
        return Judgement(
            measure=measure,
            said=None if choice.value is None else _turned_back(float(choice.value), turned),
            expected=None if chances is None else _turned_back(expected_score(chances), turned),
            failure=choice.failure("the judge's score"),
            model=choice.completion.model,
            revision=choice.completion.revision,
        )

    async def compare(self, measure: Measure, first: FreeAnswer, second: FreeAnswer) -> Compared:
        """Whether `first` is better than `second`, shown in this order.

        Raises:
            ModelError: the model could not be asked.
        """
        prompt = render(
            "compare",
            rubric=rubric(measure),
            question=first.prompt,
            first=first.answer,
            second=second.answer,
        )
        address = f"judge/{measure}/{first.answer_id}/{second.answer_id}"
        choice = await self._choice(prompt, ("1", "2"), measure, address)
        chances = choice.probabilities
        return Compared(
            measure=measure,
            first=first,
            second=second,
            said_first=None if choice.value is None else choice.value == "1",
            first_probability=None if chances is None else chances["1"],
            failure=choice.failure("the judge's choice"),
        )

    async def _choice(
        self, prompt: str, choices: tuple[str, ...], measure: Measure, address: str
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
    measures: Sequence[Measure] = MEASURES,
    in_flight: int = IN_FLIGHT,
    on_judgement: Callable[[], None] = lambda: None,
) -> list[Judged]:
    """Every measure of every answer, by answer; equal answers to one prompt are asked once."""
    distinct = {answer.answer_id: answer for answer in answers}
    seats = asyncio.Semaphore(in_flight)

    async def one(measure: Measure, answer: FreeAnswer) -> Judgement:
        async with seats:
            judgement = await judge.score(measure, answer.prompt, answer.answer)
        on_judgement()
        return judgement

    keys = [(name, measure) for name in distinct for measure in measures]
    judgements = await asyncio.gather(*(one(measure, distinct[name]) for name, measure in keys))
    by_key = dict(zip(keys, judgements, strict=True))
    return [
        Judged(answer, by_key[answer.answer_id, measure])
        for answer in answers
        for measure in measures
    ]


async def compare_answers(
    judge: Judge,
    pairs: Sequence[Pair],
    measures: Sequence[Measure] = MEASURES,
    in_flight: int = IN_FLIGHT,
    on_comparison: Callable[[], None] = lambda: None,
) -> list[Compared]:
    """Every pair by every measure in both orders: (a, b), then (b, a)."""
    seats = asyncio.Semaphore(in_flight)

    async def one(measure: Measure, first: FreeAnswer, second: FreeAnswer) -> Compared:
        async with seats:
            compared = await judge.compare(measure, first, second)
        on_comparison()
        return compared

    return await asyncio.gather(
        *(
            one(measure, *order)
            for a, b in pairs
            for measure in measures
            for order in ((a, b), (b, a))
        )
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
