"""CRIT: how good each side's reasons are, by a judge that never takes part.

The judge is shown the text, a claim and a reason; neither who spoke nor anybody's percentages.
The paper, section 3.2.3, names the criteria; the form is a choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rldf_ray.models.agent import Choice
from rldf_ray.protocols.evince.arguments import (
    HIGHEST,
    Argument,
    ReasonScores,
    crit,
    own_quality,
    rival_quality,
)
from rldf_ray.protocols.evince.errors import ScoreError
from rldf_ray.protocols.evince.prompt import render
from rldf_ray.protocols.evince.settings import CritSection
from rldf_ray.protocols.evince.trace import OTHER, Side
from rldf_ray.protocols.seats import Seats, all_of
from rldf_ray.storage.digest import digest

SCORES = tuple(str(score) for score in range(1, HIGHEST + 1))
REPEATED = tuple(str(score) for score in range(HIGHEST + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rated:
    """The reasons of both sides in one round, rated.

    Attributes:
        scores: by argument; empty where a rubric rates whole turns.
    """

    crit: dict[Side, float]
    scores: dict[str, ReasonScores]


@dataclass(frozen=True, kw_only=True)
class Critic:
    """The judge at work on one item.

    Attributes:
        text: the prompt's constant part: question, labels and text.
    """

    seats: Seats
    name: str
    text: str
    settings: CritSection

    async def rate(
        self, arguments: dict[Side, Sequence[Argument]], claims: dict[Side, str]
    ) -> Rated:
        """Both sides' reasons in one round.

        Args:
            claims: the likeliest label of each side.

        Raises:
            ScoreError: the judge gave no score.
            ModelError: it could not answer.
        """
        if self.settings.form == "rubric":
            a, b = await all_of(
                self._rubric(arguments["A"], claims["A"]), self._rubric(arguments["B"], claims["B"])
            )
            return Rated(crit={"A": a, "B": b}, scores={})
        pairs = [
            (argument, claims[side], claims[other])
            for side, other in OTHER.items()
            for argument in arguments[side]
        ]
        rated = await all_of(*(self._scores(*pair) for pair in pairs))
        scores = {pair[0].argument_id: one for pair, one in zip(pairs, rated, strict=True)}
        return Rated(crit=quality(arguments, scores), scores=scores)

    async def _scores(self, argument: Argument, claim: str, others: str) -> ReasonScores:
        """The five scores of an argument; they share a prefix, so each costs a few tokens."""
        validity, credibility, relevance, rival_validity, rival_credibility = await all_of(
            self._score(argument, claim, "validity", True),
            self._score(argument, claim, "credibility", True),
            self._score(argument, claim, "relevance", True),
            self._score(argument, others, "validity", False),
            self._score(argument, others, "credibility", False),
        )
        return ReasonScores(
            validity=validity,
            credibility=credibility,
            relevance=relevance,
            rival_validity=rival_validity,
            rival_credibility=rival_credibility,
        )

    async def _score(self, argument: Argument, label: str, what: str, fits: bool) -> float:
        asked = render("reason_score", argument=argument, label=label, what=what, fits=fits)
        return await self._asked(asked, f"crit/{what}")

    async def _rubric(self, arguments: Sequence[Argument], claim: str) -> float:
        """The mean of three sub-scores, each 0 to 1, of as many judgements as the plan says."""
        asked = [
            render("rubric_score", arguments=arguments, label=claim, what=what)
            for what in ("validity", "credibility", "relevance")
        ]
        judged = await all_of(*(self._sampled(prompt) for prompt in asked))
        scores = [score for several in judged for score in several]
        return sum((score - 1) / (HIGHEST - 1) for score in scores) / len(scores)

    async def _sampled(self, asked: str) -> list[float]:
        """As many scores as there are judges."""
        values = await self.seats.sample(
            "judge",
            self.name,
            f"{self.text}\n\n{asked}",
            SCORES,
            f"crit/rubric/{digest(asked)}",
            number=self.settings.judges,
            temperature=self.settings.temperature,
            system=render("judge"),
        )
        if None in values:
            raise ScoreError("a judge's reply is no score from 1 to 10")
        return [float(value) for value in values if value is not None]

    async def repeated(self, before: Sequence[Argument], now: Sequence[Argument]) -> float:
        """How much of what a side says now it had said in its last turn, 0 to 1."""
        asked = render("repeated", before=before, now=now)
        return await self._asked(asked, "repeated", REPEATED) / HIGHEST

    async def _asked(self, asked: str, place: str, scores: Sequence[str] = SCORES) -> float:
        """One score; its expected value where the model reports probabilities."""
        # Addressed by what is asked: the same argument against the same claim is rated once.
        choice = await self.seats.choose(
            "judge",
            self.name,
            f"{self.text}\n\n{asked}",
            scores,
            f"{place}/{digest(asked)}",
            render("judge"),
        )
        return _expected(choice)


def _expected(choice: Choice) -> float:
    if choice.probabilities is not None:
        return sum(float(score) * p for score, p in choice.probabilities.items())
    if choice.value is None:
        raise ScoreError(choice.failure("the judge's score"))
    return float(choice.value)


def quality(
    arguments: dict[Side, Sequence[Argument]], scores: dict[str, ReasonScores]
) -> dict[Side, float]:
    """Each side's CRIT of one round from what was scored; needs no model."""
    own = {
        side: [own_quality(one, scores[one.argument_id]) for one in made]
        for side, made in arguments.items()
    }
    rivals = {
        side: [rival_quality(one, scores[one.argument_id]) for one in made]
        for side, made in arguments.items()
    }
    return {"A": crit(own["A"], rivals["B"]), "B": crit(own["B"], rivals["A"])}
