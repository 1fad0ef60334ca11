"""Choosing one of several samples: by form, then by what a model makes of each.

One helper for best-of-N, critique-of-N and refinements (the paper's Algorithm 1). Nothing is
lost: all candidates and their ratings are kept, and one that cannot be read costs itself alone.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from rldf_ray.errors import UserError
from rldf_ray.protocols.persuasion.quotes import closed, unmarked, word_count
from rldf_ray.protocols.persuasion.settings import LengthSection

_THINKING = re.compile(
    r"<thinking>(.*?)(?:</thinking>|(?=<argument>)|$)", re.DOTALL | re.IGNORECASE
)
_THOUGHT = re.compile(r"<thinking>.*?</thinking>", re.DOTALL | re.IGNORECASE)
_ARGUMENT = re.compile(r"<argument>(.*?)(?:</argument>|$)", re.DOTALL | re.IGNORECASE)


LEAST_RATING = -100.0
"""Of a letter without any probability, as in the paper's code: a table takes no infinity."""


class NoProbabilitiesError(UserError):
    """Candidates cannot be rated: no reply has the probabilities of its letters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One sample of a turn.

    Attributes:
        raw: all of it, as it came.
        text: the argument in it; None where it has none.
        valid: it has the form and length that were asked for.
        rating: log-probability that it helps its side; None where it was not rated.
    """

    raw: str
    thinking: str
    text: str | None
    valid: bool
    rating: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """What was chosen, and from what.

    Attributes:
        chosen: None where no sample holds an argument; none is ever made up.
        candidates: those that were chosen from, rated where there was a choice.
        topped_up: how many of them are not valid, for want of valid ones.
    """

    chosen: Candidate | None
    candidates: tuple[Candidate, ...]
    topped_up: int


def spoken(raw: str) -> str:
    """A reply without its thoughts, in which its tags may be named."""
    return _THOUGHT.sub(" ", raw)


def parsed(raw: str, length: LengthSection, without: str = "") -> Candidate:
    """The argument of a sample, and whether it has the form.

    Args:
        without: a word that makes it invalid: a refinement does not speak of its critique.
    """
    argument = _ARGUMENT.search(spoken(raw))
    thinking = _THINKING.search(raw)
    text = closed(unmarked(argument[1].strip())) if argument and argument[1].strip() else None
    valid = (
        text is not None
        and "<quote>" in text.lower()
        and length.least <= word_count(text) <= length.most
        and not (without and without in text.lower())
    )
    return Candidate(
        raw=raw, thinking=thinking[1].strip() if thinking else "", text=text, valid=valid
    )


def first_valid(candidates: Sequence[Candidate], number: int) -> list[Candidate]:
    """The first `number` valid ones in order, topped up with others that hold an argument."""
    valid = [one for one in candidates if one.valid]
    others = [one for one in candidates if not one.valid and one.text is not None]
    return [*valid, *others][:number]


async def select(
    samples: Sequence[Candidate],
    number: int,
    rate: Callable[[Candidate, int], Awaitable[float | None]],
) -> Selected:
    """The best of the first `number` valid samples.

    Args:
        rate: how far a candidate helps its side, higher is better, and None where that cannot be
            told, which costs that candidate alone; its place among the candidates names it. Not
            called where there is nothing to choose.

    Raises:
        NoProbabilitiesError: none of them can be rated.
    """
    candidates = first_valid(samples, number)
    if len(candidates) > 1:
        ratings = await asyncio.gather(
            *(rate(candidate, place) for place, candidate in enumerate(candidates))
        )
        if all(rating is None for rating in ratings):
            raise NoProbabilitiesError(
                f"none of {len(candidates)} candidates can be rated, as the model of `preference` "
                "(else the first judge) reports no probabilities of letters, or replies with no "
                "letter: name another, or set best_of to 1 and critiques to 0"
            )
        candidates = [
            replace(one, rating=rating) for one, rating in zip(candidates, ratings, strict=True)
        ]
    return Selected(
        chosen=best(candidates),
        candidates=tuple(candidates),
        topped_up=sum(not one.valid for one in candidates),
    )


def best(candidates: Sequence[Candidate]) -> Candidate | None:
    """The highest rated, the first of equals; the first where none was rated."""
    rated = [(one.rating, one) for one in candidates if one.rating is not None]
    if not rated:
        return candidates[0] if candidates else None
    return max(rated, key=lambda pair: pair[0])[1]


def log_share(probabilities: dict[str, float] | None, own: str) -> float | None:
    """Log-probability of the candidate's own letter among the letters (a choice); None of none.

    `LEAST_RATING` at least.
    """
    if probabilities is None:
        return None
    total = sum(probabilities.values())
    share = probabilities[own] / total if total > 0 else 0.0
    return max(LEAST_RATING, math.log(share)) if share > 0 else LEAST_RATING
