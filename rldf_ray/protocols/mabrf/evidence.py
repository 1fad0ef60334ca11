"""Evidence: what was asked of a search, what came back, and what is said of it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from rldf_ray.search.backend import Hit

OVERLAP_WORDS = 8
"""So many words running that a hit shares with an item make it one that may hold the answer."""
SHORTEST_QUERY = 6
"""Characters."""
LEAD = 80
"""Characters of a snippet before the query's first word in it."""


@dataclass(frozen=True, slots=True)
class Found:
    """A hit, and the query that found it."""

    query: str
    hit: Hit


@dataclass(frozen=True, slots=True)
class Searched:
    """What searches came to: hits, each passage once, and queries that failed or found nothing."""

    found: list[Found] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What one search agent did.

    Attributes:
        queries: all that it wrote, in the order in which they were taken.
        parsed: whether its list of queries parsed; where it did not, there are none.
        searched: those that were searched; others are beyond the plan's number.
        found: hits of the queries that were searched.
        told: what of each hit the summary was made of.
        failed: queries whose search failed.
        empty_queries: queries whose search found nothing.
        summary: of the hits; empty where there are none, or where the reply was empty.
    """

    queries: tuple[str, ...]
    parsed: bool
    searched: tuple[str, ...]
    found: tuple[Found, ...]
    told: tuple[str, ...]
    failed: tuple[str, ...]
    empty_queries: tuple[str, ...]
    summary: str

    @property
    def empty(self) -> bool:
        return not self.found

    @property
    def unread(self) -> bool:
        """Whether there are hits that nothing was said of: it is then as without search."""
        return bool(self.found) and not self.summary


def ordered(queries: Sequence[str], groups: Sequence[str]) -> list[str]:
    """Queries that name a group first, the others after them (as in the paper's code)."""
    words = [word.casefold() for group in groups for word in group.split()]
    long = [query for query in queries if len(query) >= SHORTEST_QUERY]
    naming = [q for q in long if any(word in q.casefold() for word in words)]
    return [*naming, *(q for q in long if q not in naming)]


def present(groups: Sequence[str], text: str) -> list[str]:
    """The words of `groups` that stand in a text; a model may name others."""
    there = text.casefold()
    return [word for group in groups for word in group.split() if word.casefold() in there]


def same_title(one: str, other: str) -> bool:
    """Whether two titles are of one article; data sets write blanks as underscores."""
    return _title(one) == _title(other)


def _title(title: str) -> str:
    return " ".join(title.casefold().replace("_", " ").split())


def same_passage(one: str, other: str) -> bool:
    """Whether one of two texts holds the other, whatever their white space.

    A corpus may cut its passages in other places than the data.
    """
    first, second = " ".join(one.split()), " ".join(other.split())
    return bool(first and second) and (first in second or second in first)


def snippet(text: str, query: str, most: int) -> str:
    """The part of a text that has most of a query's words, of `most` characters at most.

    The first of equals; it begins at a word, behind an ellipsis where it is not the beginning.
    """
    if len(text) <= most:
        return text
    wanted = set(_words(query))
    places = [
        (match.start(), match[0].casefold())
        for match in re.finditer(r"\w+", text)
        if match[0].casefold() in wanted
    ]
    starts = [at for at, _ in places]
    best, start = 0, 0
    for number, (place, _) in enumerate(places):
        end = place + most - LEAD
        near = places[number : bisect_right(starts, end)]
        held = {word for at, word in near if at + len(word) <= end}
        if len(held) > best:
            best, start = len(held), place
    if start <= LEAD:
        return text[:most]
    begin = text.rfind(" ", 0, start - LEAD) + 1
    return f"\u2026 {text[begin : begin + most]}"


def overlaps(hit: Hit, text: str) -> bool:
    """Whether a hit shares eight words running with a text."""
    return not _runs(hit.text).isdisjoint(_runs(text))


def _runs(text: str) -> set[tuple[str, ...]]:
    words = _words(text)
    return {
        tuple(words[place : place + OVERLAP_WORDS])
        for place in range(len(words) - OVERLAP_WORDS + 1)
    }


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())
