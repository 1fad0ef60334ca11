"""The quote checker: what a debater quotes is in the story, word for word, or it is not.

The paper's quote verification; that a quote may span lines is a choice. `<quote>` becomes
`<v_quote>` or `<u_quote>`; tags that a debater writes itself are first made plain again, so that
nobody verifies its own quotes.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

SHORT = 3
"""Quotes of fewer words are shown, and counted apart."""
GRAM = 3
_TAGS = re.compile(r"<\s*(/?)\s*(?:[vu][\s_-]?)?quote\b[^<>]*>", re.IGNORECASE)
_QUOTE = re.compile(r"<quote>(.*?)</quote>", re.DOTALL | re.IGNORECASE)
_PLAIN = str.maketrans(
    dict.fromkeys("\u2018\u2019\u201a\u00b4", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u00ab\u00bb", '"')
)
_PUNCTUATION = frozenset(string.punctuation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """One quote of an argument.

    Attributes:
        verified: it stands in the story, but for punctuation, case and blank space.
        at: where it begins in the story, in characters; None where it does not stand there.
        end: the place after its last character there.
        similarity: share of its runs of three words that the story has; 1 where it is verified.
    """

    text: str
    verified: bool
    at: int | None
    end: int | None
    similarity: float

    @property
    def words(self) -> int:
        return len(self.text.split())

    @property
    def short(self) -> bool:
        return self.words < SHORT


@dataclass(frozen=True, slots=True)
class Checked:
    """An argument with its quotes marked."""

    text: str
    quotes: tuple[Quote, ...]


def normalised(text: str) -> str:
    """Plain quotation marks, no ASCII punctuation, lower case, single blanks."""
    return _normalised(text)[0].strip()


def _normalised(text: str) -> tuple[str, list[int]]:
    """The normalised text, and for each of its characters the place it comes from."""
    kept: list[str] = []
    places: list[int] = []
    for place, sign in enumerate(text.translate(_PLAIN)):
        if sign in _PUNCTUATION:
            continue
        if sign.isspace():
            if kept and kept[-1] != " ":
                kept.append(" ")
                places.append(place)
            continue
        for folded in sign.lower():
            kept.append(folded)
            places.append(place)
    return "".join(kept), places


@lru_cache(maxsize=64)
def _story(story: str) -> tuple[str, tuple[int, ...], frozenset[tuple[str, ...]]]:
    text, places = _normalised(story)
    return text, tuple(places), frozenset(_grams(text.split()))


def _grams(words: list[str]) -> Iterable[tuple[str, ...]]:
    return (tuple(words[place : place + GRAM]) for place in range(len(words) - GRAM + 1))


def check(text: str, story: str) -> Checked:
    """The text with every quote marked as verified or not."""
    quotes: list[Quote] = []

    def marked(match: re.Match[str]) -> str:
        quote = checked_quote(match[1], story)
        quotes.append(quote)
        tag = "v_quote" if quote.verified else "u_quote"
        return f"<{tag}>{match[1]}</{tag}>"

    return Checked(_QUOTE.sub(marked, unmarked(text)), tuple(quotes))


def unmarked(text: str) -> str:
    """The text with all quotes as a debater may write them."""
    return _TAGS.sub(lambda match: f"<{match[1]}quote>", text)


def checked_quote(quote: str, story: str) -> Quote:
    """One quote against the story; an empty one, or one of punctuation alone, is unverified."""
    known, places, grams = _story(story)
    wanted = normalised(quote)
    found = known.find(wanted) if wanted else -1
    if found >= 0:
        last = places[found + len(wanted) - 1]
        return Quote(
            text=quote.strip(), verified=True, at=places[found], end=last + 1, similarity=1.0
        )
    runs = list(_grams(wanted.split()))
    shared = sum(run in grams for run in runs) / len(runs) if runs else 0.0
    return Quote(text=quote.strip(), verified=False, at=None, end=None, similarity=shared)


def cut(text: str, words: int) -> tuple[str, bool]:
    """The first `words` words of an argument, an open quote closed; and whether it was cut."""
    pieces = re.findall(r"\S+\s*", text)
    counted = 0
    for place, piece in enumerate(pieces):
        if not _is_tag(piece):
            counted += 1
        if counted > words:
            kept = "".join(pieces[:place]).rstrip()
            return closed(kept) + " [cut]", True
    return closed(text.strip()), False


def _is_tag(piece: str) -> bool:
    return re.fullmatch(r"</?[vu]?_?quote>", piece.strip(), re.IGNORECASE) is not None


def closed(text: str) -> str:
    """The text with an open quote tag closed."""
    opened = len(re.findall(r"<quote>", text, re.IGNORECASE))
    ended = len(re.findall(r"</quote>", text, re.IGNORECASE))
    return text + "</quote>" * max(0, opened - ended)


def word_count(text: str) -> int:
    """Words of a text, its tags not counted."""
    return len(re.sub(r"</?[vu]?_?quote>", " ", text, flags=re.IGNORECASE).split())


def bare_quotes(text: str, known: str) -> int:
    """Runs in quotation marks outside tags, of more than two words, that `known` does not have.

    Args:
        known: question and answers, which anybody may repeat.
    """
    outside = re.sub(r"<([vu]_)?quote>.*?</\1?quote>", " ", text, flags=re.DOTALL)
    runs = re.findall(r'"([^"]+)"', outside.translate(_PLAIN))
    there = normalised(known)
    return sum(len(run.split()) > 2 and normalised(run) not in there for run in runs)
