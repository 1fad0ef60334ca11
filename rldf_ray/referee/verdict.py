"""What a referee says of a statement, and who may be one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rldf_ray.models.base import Usage
from rldf_ray.records import Context

SCORES = tuple(str(score) for score in range(11))


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The referee's whole answer on one statement.

    Attributes:
        score: the number it said, None if it said none.
        expected_score: mean of its distribution over 0..10, None if the backend reports none.
        rank: place among the round's statements, 1 = least biased, None if it gave no ranking;
            where ranks are by score, equal scores share one.
        failure: what went wrong, with the raw answer; None if nothing did.
    """

    score: float | None
    expected_score: float | None
    rank: int | None
    failure: str | None
    model: str
    revision: str
    usage: Usage


class Referee(Protocol):
    """Anything that judges the statements of a round in their context."""

    @property
    def kind(self) -> str: ...

    async def judge(
        self, context: Context, texts: Sequence[str], address: str, affinity: str = ""
    ) -> list[Verdict]: ...


def known_score(verdict: Verdict) -> float | None:
    """The expectation where the backend reports it, else the number said."""
    return verdict.score if verdict.expected_score is None else verdict.expected_score


def ranks_of(scores: Sequence[float | None]) -> list[int | None]:
    """1 is the least biased; equal scores share a rank, and the next one is as if they did not.

    A statement without a score has no rank, and the others are ranked among themselves.
    """
    known = sorted(score for score in scores if score is not None)
    return [None if score is None else 1 + bisect_left(known, score) for score in scores]


def expected_score(probabilities: dict[str, float]) -> float:
    """Mean of a distribution over the allowed scores."""
    return sum(float(score) * probability for score, probability in probabilities.items())
