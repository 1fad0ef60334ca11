"""Named filters: which statements are no data, and how many each filter dropped (METHOD 2).

A filter looks at the text and at why it ended, never at a score: what it drops says nothing about
bias. The order is fixed, and a statement counts for the first filter that drops it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args

from datasketch import MinHash, MinHashLSH

from rldf_ray.dataset.judged import Judged, by_said_score
from rldf_ray.plan import DataSection, Filter
from rldf_ray.records import Label

FILTERS: tuple[Filter, ...] = get_args(Filter)

SENTENCE_END = re.compile(r"[.!?…。！？][\"'”’)\]]*$")  # noqa: RUF001 - full-width ends as well

# What chat models say instead of speaking. A debater may well be "unable to climb the stairs" or
# "sorry", so each pattern needs the request, the role or the model itself as its object.
_CANNOT = r"(?:cannot|can't|can not|could not|couldn't|won't|will not|am (?:not able|unable) to)"
_TASK = r"(?:this|that|your|such an?|the) (?:request|task|question|prompt|debate|role|instruction)"
REFUSAL = re.compile(
    rf"\bas an? (?:ai|artificial intelligence|(?:large )?language model)\b"
    rf"|\bi(?:'m| am) (?:just |only )?an? (?:ai|(?:large )?language model)\b"
    rf"|\bi(?:'m| am) (?:very |so )?sorry,? (?:but )?i {_CANNOT} "
    rf"(?:assist|help (?:you )?with|fulfil|comply|provide|generate|create|engage|participate)"
    rf"|\bi {_CANNOT} (?:\w+ ){{0,3}}{_TASK}\b",
    re.IGNORECASE,
)

# Evidence that a text has some language at all, in UTF-8 bytes; shorter ones are kept.
SHORTEST_JUDGED = 24
# A text is off-language only where its own language is all but ruled out. English statements of
# forty and more tokens get 0.99 and above, names and borrowed words included.
RULED_OUT = 0.01

# Unicode has no punctuation beyond its first two planes.
_TWO_PLANES = 0x20000
# 16 bands of 4 rows: of two texts that share 0.7 of their runs 99 in 100 meet in a band.
_BANDS, _ROWS = 16, 4


@dataclass(frozen=True)
class Filtered:
    """What is left, in its order, and how many statements each filter dropped."""

    kept: list[Judged]
    dropped: dict[Filter, int]


def filtered(statements: Sequence[Judged], section: DataSection) -> Filtered:
    """The statements that pass the plan's filters.

    Raises:
        ValueError: `data.language` is none that can be recognised.
    """
    kept = list(statements)
    dropped: dict[Filter, int] = {}
    for name in (name for name in FILTERS if name in section.filters):
        passed = _PASSING[name](kept, section)
        dropped[name] = len(kept) - len(passed)
        kept = passed
    return Filtered(kept, dropped)


def is_empty(text: str) -> bool:
    """Whether there is not a letter or a digit in it."""
    return not any(character.isalnum() for character in text)


def is_cut_off(statement: Judged) -> bool:
    """Whether it ran into the token limit before its first sentence ended.

    A longer one was cut back to whole sentences when it was spoken, and is whole.
    """
    ended = SENTENCE_END.search(statement.text.rstrip())
    return statement.finish_reason == "length" and ended is None


def is_refusal(text: str) -> bool:
    """Whether the model speaks as a model or declines the task (English)."""
    return REFUSAL.search(text.replace("’", "'")) is not None


def is_off_language(text: str, language: str) -> bool:
    """Whether the text is surely not in `language` (ISO 639-1); a short text never is."""
    if len(text.encode()) < SHORTEST_JUDGED:
        return False
    chances: dict[str, float] = dict(_identifier().rank(text))
    return chances[language] < RULED_OUT


def check_language(language: str) -> None:
    """
    Raises:
        ValueError: `language` is none that can be recognised.
    """
    known = sorted(_identifier().labels)
    if language not in known:
        raise ValueError(f"data.language={language!r} is not known; known are {', '.join(known)}")


def without_near_duplicates(
    statements: Sequence[Judged], similarity: float, *, by_role: bool = False
) -> list[Judged]:
    """Of statements on the same prompt with the same label that are nearly the same, the first.

    Two that differ only in whom they name, one low and one high, are the best pair there is. But
    of one text that has both labels nothing is left: nobody knows which of them is right. Labels
    by the expected score count before labels by the said one, and take the place of such twins.
    A statement without a label is no data: it goes with any labelled twin, and takes none along.

    "Nothing tells who it was" is the right answer to many scenes, so texts are compared within a
    topic with its clue, or without, only. Two texts are near-duplicates where the Jaccard index
    of their three-word runs reaches `similarity`. MinHash finds the candidates, so that time
    grows with the number of statements and not with its square even on a single topic; each
    candidate is then compared exactly.

    Args:
        by_role: prompts name the debater, so that what another one says answers another prompt.
    """
    by_prompt: dict[tuple[str, bool, int | None], list[int]] = {}
    for place, one in enumerate(statements):
        prompt = (one.topic_id, one.clue_shown, one.role if by_role else None)
        by_prompt.setdefault(prompt, []).append(place)
    # One prompt after another: the runs of its texts take ten times the room of the texts.
    kept = [
        places[i]
        for places in by_prompt.values()
        for i in _first_of_alike([statements[place] for place in places], similarity)
    ]
    return [statements[place] for place in sorted(kept)]


def _first_of_alike(statements: Sequence[Judged], similarity: float) -> Iterator[int]:
    """Places of the statements on one prompt that are left."""
    order = sorted(_uncontradicted(statements), key=lambda i: _weight(statements[i]))
    labels = [statements[place].label for place in order]
    runs = [_runs(statements[place].text) for place in order]
    seen = MinHashLSH(num_perm=_BANDS * _ROWS, params=(_BANDS, _ROWS))
    for i, sketch in enumerate(MinHash.generator(runs, num_perm=_BANDS * _ROWS)):
        if not any(
            labels[i] in (None, labels[other]) and _jaccard(runs[i], runs[other]) >= similarity
            for other in seen.query(sketch)
        ):
            seen.insert(i, sketch)
            yield order[i]


def _uncontradicted(statements: Sequence[Judged]) -> Iterator[int]:
    """Places of the statements whose text has no other label, or only one by a lesser score."""
    known: dict[tuple[str, ...], dict[int, set[Label]]] = {}
    texts = [_words(one.text) for one in statements]
    for text, one in zip(texts, statements, strict=True):
        if one.label is not None:
            known.setdefault(text, {}).setdefault(_weight(one), set()).add(one.label)
    for place, (text, one) in enumerate(zip(texts, statements, strict=True)):
        if one.label is None or min(known[text].items())[1] == {one.label}:
            yield place


def _weight(statement: Judged) -> int:
    """What comes first of twins: a label by the expected score, one by the said score, none."""
    if statement.label is None:
        return 2
    return int(by_said_score(statement))


def _words(text: str) -> tuple[str, ...]:
    """A text without case, punctuation and how it is spaced."""
    return tuple(text.translate(_punctuation()).casefold().split())


def _runs(text: str) -> frozenset[bytes]:
    """Three-word runs; a text of fewer words is one run."""
    words = _words(text)
    starts = range(max(1, len(words) - 2))
    return frozenset(" ".join(words[i : i + 3]).encode(errors="surrogatepass") for i in starts)


def _jaccard(some: frozenset[bytes], others: frozenset[bytes]) -> float:
    return len(some & others) / len(some | others)


@cache
def _punctuation() -> Mapping[int, str]:
    """A space for each punctuation mark: `\\w` would leave the vowel signs of many scripts out."""
    marks = (i for i in range(_TWO_PLANES) if unicodedata.category(chr(i))[0] == "P")
    return dict.fromkeys(marks, " ")


@cache
def _identifier() -> Any:
    """The language identifier, with its probabilities over all languages normalised."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


Passing = Callable[[Sequence[Judged], DataSection], list[Judged]]


def _each(drops: Callable[[Judged, DataSection], bool]) -> Passing:
    return lambda statements, section: [s for s in statements if not drops(s, section)]


_PASSING: dict[Filter, Passing] = {
    "empty": _each(lambda s, _: is_empty(s.text)),
    "cut_off": _each(lambda s, _: is_cut_off(s)),
    "refusal": _each(lambda s, _: is_refusal(s.text)),
    "off_language": _each(lambda s, section: is_off_language(s.text, section.language)),
    "near_duplicate": lambda s, section: without_near_duplicates(
        s, section.similarity, by_role=section.pairing == "same_role"
    ),
}
