"""Blind sheets for people: answers in a shuffled order, without a word on who wrote them.

    answers --> Sheet --> sheet.csv and form.html (for raters), key.parquet (not for raters)

An answer's code is a hash of the seed and its words, and the order is that of the codes. Equal
answers to one question are one item.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rldf_ray.errors import UserError
from rldf_ray.evaluate.judge.answers import FreeAnswer
from rldf_ray.evaluate.judge.rubrics import MEASURES, rubric
from rldf_ray.evaluate.people.form import Form, FormField, form_page
from rldf_ray.storage.csv_cells import text_cell
from rldf_ray.storage.digest import digest

INTRO = (
    "Below are {number} answers to questions. Please give each one three scores from 0 to 100. You "
    "are not told who wrote an answer. Judge each by itself, by what is said here about the "
    "scores, and use the whole range."
)
COLUMNS = ("sheet", "rater", "item", "question", "answer", *MEASURES)

KEY_SCHEMA = pa.schema(
    [
        ("sheet", pa.string()),
        ("item", pa.string()),
        ("method", pa.string()),
        ("repeat", pa.int64()),
        ("seed", pa.int64()),
        ("prompt_id", pa.string()),
        ("bias_type", pa.string()),
        ("answer_id", pa.string()),
        ("prompt", pa.string()),
        ("answer", pa.string()),
    ]
)


class SheetError(UserError):
    """A sheet or its key is wrong; the message names the file, the row and the field."""


@dataclass(frozen=True, slots=True)
class Item:
    """A question and an answer under a code."""

    code: str
    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Sheet:
    """What is rated, in its order, and who wrote it.

    Attributes:
        name: a hash of the items, so that a sheet that comes back is known to be this one.
        key: code and answer; several where methods gave the same answer.
    """

    name: str
    items: tuple[Item, ...]
    key: tuple[tuple[str, FreeAnswer], ...]


def blind_sheet(answers: Sequence[FreeAnswer], seed: int) -> Sheet:
    """The answers as a sheet; the order is the same for the same seed.

    Raises:
        SheetError: there are no answers.
    """
    if not answers:
        raise SheetError("there are no answers to rate; needed: at least one")
    # Spreadsheet programs take digits, and digits around an e, for a number: a letter comes first.
    codes = {a.answer_id: "a" + digest(seed, "sheet", a.answer_id)[:8] for a in answers}
    if len(set(codes.values())) < len(codes):
        raise SheetError(f"two answers got the same code with --seed {seed}: give another seed")
    items = {codes[a.answer_id]: Item(codes[a.answer_id], a.prompt, a.answer) for a in answers}
    ordered = tuple(items[code] for code in sorted(items))
    key = sorted(((codes[a.answer_id], a) for a in answers), key=lambda pair: pair[0])
    return Sheet("s" + digest([asdict(item) for item in ordered]), ordered, tuple(key))


def sheet_csv(sheet: Sheet) -> str:
    """To be filled in with a spreadsheet program, or any editor."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for item in sheet.items:
        cells = [text_cell(item.question), text_cell(item.answer)]
        writer.writerow([sheet.name, "", item.code, *cells, *("" for _ in MEASURES)])
    # Spreadsheet programs take a file without this mark for an 8-bit encoding.
    return "\ufeff" + text.getvalue()


def sheet_form(sheet: Sheet) -> str:
    """One HTML page that needs no server and no network, and saves what `sheet_csv` has."""
    rubrics = [rubric(measure) for measure in MEASURES]
    return form_page(
        Form(
            sheet=sheet.name,
            title="Rating answers",
            intro=INTRO.format(number=len(sheet.items)),
            noun="Answer",
            done="answers rated",
            rubrics=rubrics,
            fields=[
                FormField(
                    name=one.name,
                    title=one.title,
                    hint=f"0\N{EN DASH}100, {one.better} is better",
                    pattern=r"0?\d{1,2}|00\d|100",
                    problem="Whole numbers, 0 to 100.",
                    longest=3,
                )
                for one in rubrics
            ],
            columns=COLUMNS,
            items=[
                (item.code, {"question": item.question, "answer": item.answer})
                for item in sheet.items
            ],
        )
    )


def key_table(sheet: Sheet) -> pa.Table:
    """Who wrote what; columns of KEY_SCHEMA. Raters must not see it."""
    rows = [
        {"sheet": sheet.name, "item": code, "answer_id": answer.answer_id, **asdict(answer)}
        for code, answer in sheet.key
    ]
    return pa.Table.from_pylist(rows, schema=KEY_SCHEMA)


def read_key(path: Path) -> Sheet:
    """The sheet a key belongs to.

    Raises:
        SheetError: no such file, or not a key.
    """
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise SheetError(
            f"{path} is no key ({error}); needed: the key.parquet that the export wrote"
        ) from error
    if table.schema != KEY_SCHEMA or not table.num_rows:
        raise SheetError(f"{path} is no key; needed: the key.parquet that the export wrote")
    rows = table.to_pylist()
    items = {row["item"]: Item(row["item"], row["prompt"], row["answer"]) for row in rows}
    fields = ("method", "prompt_id", "bias_type", "prompt", "answer", "repeat", "seed")
    key = tuple((row["item"], FreeAnswer(**{f: row[f] for f in fields})) for row in rows)
    return Sheet(rows[0]["sheet"], tuple(items.values()), key)
