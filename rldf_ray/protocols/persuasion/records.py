"""Rows of a study's tables.

outcomes     one a verdict: of a transcript, or of a naive or expert judge, in one position
arguments    one an argument, with what its quotes come to
candidates   one a sample that was chosen from, with its rating
course       the judge's probability of the right answer after each round, asked at once
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from rldf_ray.protocols.persuasion.holding import Dialogue
from rldf_ray.protocols.persuasion.judging import Verdict
from rldf_ray.protocols.persuasion.quotes import (
    Quote,
    bare_quotes,
    normalised,
    word_count,
)
from rldf_ray.protocols.persuasion.selection import Selected
from rldf_ray.protocols.persuasion.transcript import PersuasionItem, Side
from rldf_ray.protocols.persuasion.turn import Turn

FAKE_WORDS = 7
"""A quote of more words that shares no run of three with the story is invented."""

_NAMES = ("item_id", "protocol", "key", "correct_debater", "incorrect_debater", "judge", "position")
OUTCOMES = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in _NAMES),
        pa.field("interactive", pa.bool_()),
        # The consultant's; null of a debate.
        pa.field("side", pa.string()),
        # Null where the verdict is none, and where the debate failed.
        pa.field("letter", pa.string()),
        pa.field("p_a", pa.float64()),
        pa.field("correct", pa.bool_()),
        pa.field("p_correct", pa.float64()),
        pa.field("failure", pa.string()),
    ]
)

PEOPLE = OUTCOMES.append(pa.field("rater", pa.string()))
"""Verdicts of people, from sheets that came back."""

ARGUMENTS = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("item_id", "key", "debater", "side", "text")),
        # The one it was held in.
        pa.field("position", pa.string()),
        pa.field("round", pa.int16()),
        pa.field("words", pa.int16()),
        pa.field("was_cut", pa.bool_()),
        pa.field("topped_up", pa.int16()),
        pa.field("verified", pa.int16()),
        pa.field("unverified", pa.int16()),
        pa.field("short", pa.int16()),
        pa.field("bare", pa.int16()),
        pa.field("verified_words", pa.int16()),
        pa.field("similarity", pa.float64()),
        pa.field("fake", pa.int16()),
        pa.field("duplicates", pa.int16()),
        pa.field("conceded", pa.bool_()),
    ]
)

LATER = ("position",)
"""Columns of ARGUMENTS that earlier versions did not write; static dialogues were all plain."""

CANDIDATES = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("item_id", "key", "debater", "side", "stage")),
        pa.field("round", pa.int16()),
        pa.field("number", pa.int16()),
        pa.field("raw", pa.string()),
        pa.field("text", pa.string()),
        pa.field("valid", pa.bool_()),
        pa.field("rating", pa.float64()),
        pa.field("chosen", pa.bool_()),
    ]
)

COURSE = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("item_id", "key", "judge", "position")),
        pa.field("round", pa.int16()),
        pa.field("p_correct", pa.float64()),
    ]
)

TABLES = {
    "outcomes": OUTCOMES,
    "arguments": ARGUMENTS,
    "candidates": CANDIDATES,
    "course": COURSE,
}

Row = dict[str, Any]


def verdict_row(item: PersuasionItem, verdict: Verdict, **of: Any) -> Row:
    """A verdict."""
    return {
        **dict.fromkeys(OUTCOMES.names),
        "item_id": item.item_id,
        "interactive": False,
        **of,
        "position": verdict.position,
        "letter": verdict.letter,
        "p_a": verdict.p_a,
        "correct": verdict.correct,
        "p_correct": verdict.p_correct,
    }


def argument_rows(
    item: PersuasionItem,
    key: str,
    names: dict[Side, str],
    dialogue: Dialogue,
    conceded: dict[Side, bool | None],
) -> Iterator[Row]:
    """The arguments of a dialogue."""
    earlier: dict[Side, set[str]] = {"correct": set(), "incorrect": set()}
    known = f"{item.question} {item.correct} {item.incorrect}"
    for turn in dialogue.turns:
        quotes, seen = turn.checked.quotes, earlier[turn.side]
        again = [q for q in quotes if normalised(q.text) in seen]
        seen |= {normalised(q.text) for q in quotes}
        yield {
            "item_id": item.item_id,
            "key": key,
            "debater": names[turn.side],
            "side": turn.side,
            "text": turn.checked.text,
            "position": dialogue.transcript.position,
            "round": turn.round,
            "words": word_count(turn.checked.text),
            "was_cut": turn.was_cut,
            "topped_up": sum(s.topped_up for s in (turn.first, turn.refined) if s is not None),
            **_quotes(quotes),
            "bare": bare_quotes(turn.checked.text, known),
            "duplicates": len(again),
            "conceded": conceded.get(turn.side),
        }


def _quotes(quotes: tuple[Quote, ...]) -> Row:
    unverified = [q for q in quotes if not q.verified]
    return {
        "verified": sum(q.verified for q in quotes),
        "unverified": len(unverified),
        "short": sum(q.short for q in quotes),
        "verified_words": sum(q.words for q in quotes if q.verified),
        "similarity": sum(q.similarity for q in unverified) / len(unverified)
        if unverified
        else None,
        "fake": sum(q.similarity == 0 and q.words > FAKE_WORDS for q in unverified),
    }


def candidate_rows(
    item: PersuasionItem, key: str, names: dict[Side, str], turn: Turn
) -> Iterator[Row]:
    """All that a turn was chosen from."""
    stages: dict[str, Selected | None] = {
        "first": turn.first,
        "critique": turn.critique,
        "refined": turn.refined,
    }
    for stage, selected in stages.items():
        for number, one in enumerate(selected.candidates if selected else ()):
            assert selected is not None
            yield {
                "item_id": item.item_id,
                "key": key,
                "debater": names[turn.side],
                "side": turn.side,
                "stage": stage,
                "round": turn.round,
                "number": number,
                "raw": one.raw,
                "text": one.text,
                "valid": one.valid,
                "rating": one.rating,
                "chosen": one is selected.chosen,
            }
