"""Arguments of a dialogue: what was claimed, how good it is, whether its quote is in the text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rldf_ray.protocols.evince.trace import Side

HIGHEST = 10
"""Scores of reasons go from 1 to this."""
QUOTE_NOT_FOUND, WEAK = "quote not found", "weak"
QUOTING = "\"'.\u201c\u201d\u2018\u2019\u2026"
"""Signs round a quote that are not of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument of a turn.

    Attributes:
        argument_id: side, round and number ("A2.1"); the text never comes from a model.
        label: the one that it speaks for.
        quote: words of the text, or empty.
        quote_at: where the quote begins in `EvinceItem.source_text`, in characters; None where it
            is not there.
    """

    argument_id: str
    side: Side
    round: int
    label: str
    claim: str
    reason: str
    quote: str
    quote_at: int | None

    @property
    def misquotes(self) -> bool:
        return bool(self.quote) and self.quote_at is None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonScores:
    """What the judge says of an argument, each from 1 to 10, expected values where known.

    Attributes:
        validity, credibility, relevance: as its own side's reason.
        rival_validity, rival_credibility: as a reason against the other side's claim.
    """

    validity: float
    credibility: float
    relevance: float
    rival_validity: float
    rival_credibility: float


def _share(score: float) -> float:
    """A score from 1 to 10 as one from 0 to 1."""
    # Expected values are sums, and may lie a rounding error outside.
    return min(1.0, max(0.0, (score - 1) / (HIGHEST - 1)))


def own_quality(argument: Argument, scores: ReasonScores) -> float:
    """How good a reason is for its own side's claim, 0 to 1; 0 where it quotes what is not there.

    The geometric mean of validity, credibility and relevance (a choice).
    """
    credibility = 0.0 if argument.misquotes else _share(scores.credibility)
    return float((_share(scores.validity) * credibility * _share(scores.relevance)) ** (1 / 3))


def rival_quality(argument: Argument, scores: ReasonScores) -> float:
    """How good a reason is against the other side's claim, 0 to 1."""
    credibility = 0.0 if argument.misquotes else _share(scores.rival_credibility)
    return math.sqrt(_share(scores.rival_validity) * credibility)


def crit(own: Sequence[float], rivals: Sequence[float]) -> float:
    """Quality of one side's reasons in one round, 0 to 1: the paper's Omega.

    How reasons and rivals are weighed is a choice.

    Args:
        own: `own_quality` of its arguments.
        rivals: `rival_quality` of the other side's latest.
    """
    if not own:
        return 0.0
    mine = sum(own) / len(own)
    if not rivals:
        return mine
    return 2 / 3 * mine + 1 / 3 * (1 - sum(rivals) / len(rivals))


def find_quote(quote: str, text: str) -> int | None:
    """Where a quote begins in a text, in characters; blank space and case do not count.

    None for an empty quote, and for one that is not there.
    """
    wanted = "".join(quote.split()).casefold().strip(QUOTING)
    if not wanted:
        return None
    places = [place for place, sign in enumerate(text) for _ in _folded(sign)]
    joined = "".join(_folded(sign) for sign in text)
    found = joined.find(wanted)
    return None if found < 0 else places[found]


def _folded(sign: str) -> str:
    return "" if sign.isspace() else sign.casefold()
