"""debates/: a page a question, with what was argued about it, and an index of them.

Arguments stand side by side; a quote is green where it stands in the story, and leads there, and
red where it does not. All of it is for readers of a finished study; nobody in it saw more than the
transcript.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import jinja2
import pyarrow as pa

from rldf_ray.protocols.persuasion.finished import Address, Finished, finished
from rldf_ray.protocols.persuasion.quotes import checked_quote
from rldf_ray.protocols.persuasion.transcript import (
    PersuasionItem,
    letter_of,
    name_of,
    side_of,
)
from rldf_ray.storage.run_folder import RunFolder

Row = Mapping[str, Any]
Span = tuple[int, int]
FOLDER = "debates"
_QUOTE = re.compile(r"<([vu])_quote>(.*?)</\1_quote>", re.DOTALL)

_templates = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of text.

    Attributes:
        kind: `verified`, `unverified`, or nothing of plain text.
        at: where a verified quote begins in the story; None of all else.
    """

    text: str
    kind: str = ""
    at: int | None = None


def argument_pieces(text: str, story: str) -> list[Piece]:
    """An argument as everybody was shown it, its quotes apart."""
    pieces, place = [], 0
    for match in _QUOTE.finditer(text):
        kind = "verified" if match[1] == "v" else "unverified"
        at = checked_quote(match[2], story).at
        pieces += [Piece(text[place : match.start()]), Piece(match[2], kind, at)]
        place = match.end()
    pieces.append(Piece(text[place:]))
    return [piece for piece in pieces if piece.text]


def quoted_spans(texts: Iterable[str], story: str) -> list[Span]:
    """Where the quotes of arguments stand in the story, in its order."""
    quotes = (checked_quote(match[2], story) for text in texts for match in _QUOTE.finditer(text))
    return sorted({(q.at, q.end) for q in quotes if q.at is not None and q.end is not None})


def story_pieces(story: str, spans: Sequence[Span]) -> list[Piece]:
    """The story with what is quoted apart; every quote's beginning begins a piece."""
    cuts = sorted({0, len(story), *(place for span in spans for place in span)})
    starts = {start for start, _ in spans}
    return [
        Piece(
            story[start:end],
            "verified" if any(a <= start and end <= b for a, b in spans) else "",
            start if start in starts else None,
        )
        for start, end in pairwise(cuts)
    ]


def write_pages(
    folder: RunFolder,
    items: Sequence[PersuasionItem],
    tables: Mapping[str, pa.Table],
    title: str,
) -> str | None:
    """A page for each question that was argued about; the index's place, None without any."""
    by_item: dict[str, list[Finished]] = {}
    for dialogue in finished(items, tables).values():
        by_item.setdefault(dialogue.item.item_id, []).append(dialogue)
    if not by_item:
        return None
    course = _courses(tables["course"].to_pylist())
    bounds: dict[str, list[Row]] = {}
    for row in tables["outcomes"].to_pylist():
        if row["protocol"] in ("naive", "expert"):
            bounds.setdefault(row["item_id"], []).append(row)
    names = {item.item_id: f"{number:04}.html" for number, item in enumerate(items, start=1)}
    for item in items:
        if item.item_id in by_item:
            page = question_page(
                item, by_item[item.item_id], bounds.get(item.item_id, ()), course, title
            )
            folder.write_text(f"{FOLDER}/{names[item.item_id]}", page)
    listed = [
        (names[item.item_id], item, _right([v for d in by_item[item.item_id] for v in d.verdicts]))
        for item in items
        if item.item_id in by_item
    ]
    index = _templates.get_template("debates.html.jinja").render(title=title, questions=listed)
    folder.write_text(f"{FOLDER}/index.html", index)
    return f"{FOLDER}/index.html"


Courses = Mapping[Address, Mapping[tuple[str, str], Mapping[int, float]]]
"""The judge's probability of the correct answer by dialogue, judge and position, and round."""


def _courses(rows: Iterable[Row]) -> Courses:
    found: dict[Address, dict[tuple[str, str], dict[int, float]]] = {}
    for row in rows:
        if row["p_correct"] is not None:
            by_judge = found.setdefault((row["item_id"], row["key"]), {})
            by_round = by_judge.setdefault((row["judge"], row["position"]), {})
            by_round[row["round"]] = row["p_correct"]
    return found


def question_page(
    item: PersuasionItem,
    dialogues: Sequence[Finished],
    bounds: Sequence[Row],
    course: Courses,
    title: str,
) -> str:
    """The page of a question.

    Args:
        bounds: verdicts of naive and expert judges.
    """
    texts = [argument["text"] for dialogue in dialogues for argument in dialogue.arguments]
    return _templates.get_template("debate.html.jinja").render(
        title=title,
        item=item,
        bounds=[{"who": f"{row['judge']}, {row['protocol']}", **_verdict(row)} for row in bounds],
        dialogues=[
            _shown(dialogue, course.get((item.item_id, dialogue.key), {}))
            for dialogue in sorted(dialogues, key=lambda one: one.transcript.kind != "debate")
        ],
        story=story_pieces(item.story, quoted_spans(texts, item.story)),
    )


def _shown(dialogue: Finished, course: Mapping[tuple[str, str], Mapping[int, float]]) -> Row:
    """A dialogue as its page has it."""
    transcript = dialogue.transcript
    position, kind = transcript.position, transcript.kind
    order = [side_of(letter, position) for letter in ("A", "B")]
    sides = [side for side in order if side in dialogue.debaters]
    heading = f"{'interactive ' if dialogue.interactive else ''}{kind}".capitalize()
    if len({row["position"] for row in dialogue.verdicts}) == 1:
        heading += f", held and judged in the {position} position"
    return {
        "title": heading,
        "failure": dialogue.failure,
        "speakers": [
            {
                "name": name_of(side, position, kind),
                "debater": dialogue.debaters[side],
                "side": side,
                "answer": dialogue.item.answer(side),
            }
            for side in sides
        ],
        "rounds": [_round(dialogue, number, sides) for number in range(1, transcript.rounds + 1)],
        "verdicts": [
            {"who": row["judge"], **_verdict(row)}
            for row in dialogue.verdicts
            if not row["failure"]
        ],
        "course": [_line(who, by_round) for who, by_round in course.items()],
    }


def _round(dialogue: Finished, number: int, sides: Sequence[str]) -> Row:
    said = [one for one in dialogue.transcript.said if one.round == number]
    texts = {one.side: one.text for one in said}
    return {
        "number": number,
        "question": texts.get(None),
        "arguments": [
            argument_pieces(texts[side], dialogue.item.story) if side in texts else None
            for side in sides
        ],
    }


def _verdict(row: Row) -> Row:
    """A verdict in words; p(A) where it is known."""
    right = {True: "right", False: "wrong", None: "no verdict"}[row["correct"]]
    return {"position": row["position"], "letter": row["letter"], "p_a": row["p_a"], "right": right}


def _line(who: tuple[str, str], by_round: Mapping[int, float]) -> Row:
    """p(A) after each round, of one judge in one position."""
    judge, position = who
    correct = letter_of("correct", "plain" if position == "plain" else "swapped")
    return {
        "judge": judge,
        "correct": correct,
        "rounds": [
            {"number": number, "p_a": p if correct == "A" else 1 - p, "p_correct": p}
            for number, p in sorted(by_round.items())
        ],
    }


def _right(rows: Sequence[Row]) -> str:
    """How many verdicts are right, of those that are any."""
    valid = [row["correct"] for row in rows if row["correct"] is not None]
    return f"{sum(valid)} of {len(valid)}"


def all_rounds(lines: Iterable[Row]) -> Iterator[int]:
    """Rounds that any line has."""
    yield from sorted({one["number"] for line in lines for one in line["rounds"]})


_templates.globals["all_rounds"] = all_rounds
