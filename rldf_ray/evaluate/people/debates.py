"""Blind sheets of debates: a transcript without the debaters' names, and which answer is right.

    finished study --> DebateSheet --> sheet.csv and form.html (for raters), key.parquet (not)

A debate that was held without letters stands in one position, drawn by the seed; what a person
says of it is a verdict as a judge's is, without a probability.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rldf_ray.evaluate.people.form import Form, FormField, form_page
from rldf_ray.evaluate.people.returned import Column, read_returned
from rldf_ray.evaluate.people.sheet import SheetError
from rldf_ray.protocols.persuasion.finished import Address, Finished
from rldf_ray.protocols.persuasion.records import OUTCOMES, PEOPLE
from rldf_ray.protocols.persuasion.results import PEOPLE_JUDGE
from rldf_ray.protocols.persuasion.transcript import (
    MARK,
    Position,
    letter_of,
    rendered,
    side_of,
)
from rldf_ray.storage.csv_cells import text_cell
from rldf_ray.storage.digest import digest
from rldf_ray.storage.run_folder import RunFolder

Row = Mapping[str, Any]
SHEET, FORM, KEY = "for_raters/sheet.csv", "for_raters/form.html", "key.parquet"
"""Where they lie in the folder that is given for them."""
COLUMNS = ("sheet", "rater", "item", "question", "transcript", "verdict")
KEY_SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("sheet", "study", "item", "item_id", "key", "position")]
)
INTRO = (
    "Below are {number} debates about questions on stories that you have not read. Please say of "
    "each which answer is right, A or B. Debaters were told which answer to argue for, and who "
    "argues for the wrong one does so as well as it can; a lone consultant argues for a right or a "
    "wrong answer. Quotes were looked up in the story: trust those that stand in it, and no others."
)
_QUOTE = re.compile(r"<([vu])_quote>(.*?)</\1_quote>", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class DebateSheet:
    """Debates to be judged, in their order.

    Attributes:
        name: a hash of what is shown, so that a sheet that comes back is known to be this one.
        study: the key of the study that they are of.
        shown: code, question and transcript. key: code, dialogue and position.
    """

    name: str
    study: str
    shown: tuple[tuple[str, str, str], ...]
    key: Mapping[str, tuple[Address, Position]]


def one_of_each(dialogues: Iterable[Finished], seed: int) -> list[Finished]:
    """A dialogue about each question, drawn among those that came to their end.

    Whoever has read the debate about a question, or the consultancy for the other answer, is no
    longer a judge of a consultancy alone.
    """
    drawn: dict[str, tuple[str, Finished]] = {}
    for dialogue in dialogues:
        if dialogue.failure is not None:
            continue
        item = dialogue.item.item_id
        place = digest(seed, "dialogue", item, dialogue.key)
        if item not in drawn or place < drawn[item][0]:
            drawn[item] = (place, dialogue)
    return [dialogue for _, dialogue in drawn.values()]


def debate_sheet(study: str, dialogues: Iterable[Finished], seed: int) -> DebateSheet:
    """The dialogues as a sheet; the order is the same for the same seed.

    Raises:
        SheetError: none of them came to its end.
    """
    key: dict[str, tuple[Address, Position]] = {}
    shown: list[tuple[str, str, str]] = []
    for dialogue in dialogues:
        if dialogue.failure is not None:
            continue
        address = (dialogue.item.item_id, dialogue.key)
        code = "d" + digest(seed, "sheet", *address)[:8]
        if code in key:
            raise SheetError(f"two debates got the same code with --seed {seed}: give another seed")
        position = _position(dialogue, digest(seed, "position", *address))
        key[code] = (address, position)
        shown.append((code, question_text(dialogue, position), transcript_text(dialogue, position)))
    if not shown:
        raise SheetError("there are no debates to judge; needed: at least one that was held whole")
    shown.sort()
    return DebateSheet(name="s" + digest(shown), study=study, shown=tuple(shown), key=key)


def _position(dialogue: Finished, drawn: str) -> Position:
    """The position of a dialogue whose speakers know it, else one that is drawn."""
    judged: list[Position] = sorted({row["position"] for row in dialogue.verdicts})
    return judged[int(drawn, 16) % len(judged)]


def question_text(dialogue: Finished, position: Position) -> str:
    """Question and lettered answers, and of a consultancy what is argued for."""
    answers = [f"{x}. {dialogue.item.answer(side_of(x, position))}" for x in ("A", "B")]
    text = "\n".join([dialogue.item.question, "", *answers])
    if len(dialogue.debaters) == 2:
        return text
    (side,) = dialogue.debaters
    return f"{text}\n\nA single consultant argues for answer {letter_of(side, position)}."


def transcript_text(dialogue: Finished, position: Position) -> str:
    """What a judge reads, quotes marked in words."""

    def marked(match: re.Match[str]) -> str:
        where = "in the story" if match[1] == "v" else "not in the story"
        return f"\u201c{match[2]}\u201d [{where}]"

    return _QUOTE.sub(marked, rendered(dialogue.transcript, position).replace(MARK, ""))


def debate_csv(sheet: DebateSheet) -> str:
    """To be filled in with a spreadsheet program, or any editor."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for code, question, transcript in sheet.shown:
        writer.writerow([sheet.name, "", code, text_cell(question), text_cell(transcript), ""])
    # Spreadsheet programs take a file without this mark for an 8-bit encoding.
    return "\ufeff" + text.getvalue()


def debate_form(sheet: DebateSheet) -> str:
    """One HTML page that saves what `debate_csv` has."""
    return form_page(
        Form(
            sheet=sheet.name,
            title="Judging debates",
            intro=INTRO.format(number=len(sheet.shown)),
            noun="Debate",
            done="debates judged",
            rubrics=(),
            fields=[
                FormField(
                    name="verdict",
                    title="Which answer is right?",
                    hint="A or B",
                    pattern="[ABab]",
                    problem="A or B.",
                    longest=1,
                )
            ],
            columns=COLUMNS,
            items=[
                (code, {"question": question, "transcript": transcript})
                for code, question, transcript in sheet.shown
            ],
        )
    )


def debate_key(sheet: DebateSheet) -> pa.Table:
    """Which debate each code is; columns of KEY_SCHEMA. Raters must not see it."""
    rows = [
        {
            "sheet": sheet.name,
            "study": sheet.study,
            "item": code,
            "item_id": address[0],
            "key": address[1],
            "position": position,
        }
        for code, (address, position) in sorted(sheet.key.items())
    ]
    return pa.Table.from_pylist(rows, schema=KEY_SCHEMA)


def write_sheet(sheet: DebateSheet, folder: RunFolder) -> None:
    """The sheet, the form and the key.

    Raises:
        SheetError: the folder holds another sheet's key, without which its verdicts are lost.
    """
    key = debate_key(sheet)
    if (folder.root / KEY).exists() and not pq.read_table(folder.root / KEY).equals(key):
        raise SheetError(f"{folder.root} holds the key of another sheet: give another --out")
    folder.write_table(KEY, key)
    folder.write_text(SHEET, debate_csv(sheet))
    folder.write_text(FORM, debate_form(sheet))


def read_debate_key(path: Path, study: str) -> Mapping[str, Row]:
    """The rows of a key by their codes.

    Raises:
        SheetError: no such file, not a key of debates, or of another study than `study`.
    """
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise SheetError(
            f"{path} is no key ({error}); needed: the key.parquet that was written with the sheet"
        ) from error
    if table.schema != KEY_SCHEMA or not table.num_rows:
        raise SheetError(f"{path} is no key of debates; needed: the one written with the sheet")
    rows = {row["item"]: row for row in table.to_pylist()}
    of = next(iter(rows.values()))["study"]
    if of != study:
        raise SheetError(f"{path} is of study {of!r}; this folder holds {study!r}")
    return rows


def read_verdicts(
    paths: Sequence[Path], key: Mapping[str, Row], dialogues: Mapping[Address, Finished]
) -> list[Row]:
    """What people say in sheets that came back, as rows of `PEOPLE`.

    Raises:
        SheetError: as `read_returned`.
    """
    column = Column("verdict", _letter, "A or B")
    sheet = next(iter(key.values()))["sheet"]
    rows: list[Row] = []
    for cell in read_returned(paths, sheet, set(key), [column]):
        place = key[cell.item]
        dialogue = dialogues[place["item_id"], place["key"]]
        held = {name: dialogue.verdicts[0][name] for name in OUTCOMES.names}
        right = letter_of("correct", place["position"])
        rows.append(
            {
                **held,
                "judge": PEOPLE_JUDGE,
                "rater": cell.rater,
                "position": place["position"],
                "letter": cell.value,
                "correct": cell.value == right,
                "p_a": None,
                "p_correct": None,
            }
        )
    return rows


def _letter(cell: str) -> str | None:
    return cell.upper() if cell.upper() in ("A", "B") else None


def merged(before: Iterable[Row], now: Iterable[Row]) -> pa.Table:
    """Verdicts of several imports, the latest of each person on each debate."""
    latest = {
        (row["rater"], row["item_id"], row["key"], row["position"]): dict(row)
        for rows in (before, now)
        for row in rows
    }
    return pa.Table.from_pylist([latest[key] for key in sorted(latest)], schema=PEOPLE)
