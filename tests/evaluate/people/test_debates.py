"""People judge debates: blind sheets, and verdicts that find their debate again."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rldf_ray.evaluate.people.debates import (
    COLUMNS,
    DebateSheet,
    debate_csv,
    debate_form,
    debate_sheet,
    merged,
    one_of_each,
    read_debate_key,
    read_verdicts,
    write_sheet,
)
from rldf_ray.evaluate.people.sheet import SheetError
from rldf_ray.protocols.persuasion.finished import Address, Finished, finished
from rldf_ray.protocols.persuasion.results import Results
from rldf_ray.protocols.persuasion.summary import summary
from rldf_ray.storage.run_folder import RunFolder
from tests.protocols.persuasion.script import (
    ITEM,
    Script,
    held,
    honest,
    settings,
    tables_of,
    trusts_quotes,
)

CHANGES: dict[str, Any] = {
    "debaters": {"secret-n4": {"model": "m"}},
    "interactive": [False, True],
    "protocols": ["naive", "debate", "consultancy"],
}


@pytest.fixture
async def tables() -> dict[str, pa.Table]:
    return tables_of(await held(Script(honest, trusts_quotes), **CHANGES))


@pytest.fixture
def dialogues(tables: dict[str, pa.Table]) -> dict[Address, Finished]:
    return finished([ITEM], tables)


@pytest.fixture
def sheet(dialogues: dict[Address, Finished]) -> DebateSheet:
    return debate_sheet("k1", dialogues.values(), 0)


def filled(sheet: DebateSheet, folder: Path, rater: str, letters: list[str]) -> Path:
    rows = list(csv.DictReader(io.StringIO(debate_csv(sheet).removeprefix("\ufeff"), newline="")))
    path = folder / f"{rater}.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for row, letter in zip(rows, letters, strict=True):
            writer.writerow({**row, "rater": rater, "verdict": letter})
    return path


def test_a_sheet_is_blind_and_shows_what_a_judge_reads(sheet: DebateSheet) -> None:
    # A debate in one position and an interactive one in each; two static consultancies, and two
    # interactive ones in each.
    assert len(sheet.shown) == 1 + 2 + 2 + 4
    for text in (debate_csv(sheet), debate_form(sheet)):
        assert "secret-n4" not in text and "_quote>" not in text
        assert "correct" not in text.partition("<script>")[0]
    codes = [code for code, _, _ in sheet.shown]
    assert codes == sorted(codes)
    for code, question, transcript in sheet.shown:
        (_, key), position = sheet.key[code]
        answers = ["The grandfather", "The grandson"][:: 1 if position == "plain" else -1]
        assert question.startswith(f"{ITEM.question}\n\nA. {answers[0]}\nB. {answers[1]}")
        true = "\u201cThe grandfather repaired the telephone\u201d [in the story]"
        if key.startswith("debate"):
            letter = "A" if position == "plain" else "B"
            assert f"Debater {letter}: It says {true}" in transcript
            assert "alone\u201d [not in the story]" in transcript
        else:
            side = "correct" if "secret-n4 correct" in key else "incorrect"
            letter = "A" if (side == "correct") == (position == "plain") else "B"
            assert question.endswith(f"A single consultant argues for answer {letter}.")
        if key.endswith(", swapped"):
            assert position == "swapped"


def test_nobody_is_given_two_dialogues_about_one_question(
    dialogues: dict[Address, Finished],
) -> None:
    drawn = [one_of_each(dialogues.values(), seed) for seed in range(60)]
    assert all(len(one) == 1 for one in drawn)
    assert {one[0].key for one in drawn} == {key for _, key in dialogues}
    assert one_of_each(dialogues.values(), 1) == one_of_each(list(dialogues.values())[::-1], 1)


def test_a_dialogue_that_failed_is_not_drawn(dialogues: dict[Address, Finished]) -> None:
    first, *others = dialogues.values()
    failed = [replace(one, failure="no argument") for one in others]
    assert all(one_of_each([first, *failed], seed) == [first] for seed in range(9))
    assert one_of_each(failed, 0) == []


def test_verdicts_find_their_debate(
    sheet: DebateSheet, dialogues: dict[Address, Finished], tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path / "people")
    write_sheet(sheet, folder)
    write_sheet(sheet, folder)
    key = read_debate_key(tmp_path / "people/key.parquet", "k1")
    right = ["A" if sheet.key[code][1] == "plain" else "B" for code, _, _ in sheet.shown]
    ann = filled(sheet, tmp_path, "ann", right)
    bob = filled(sheet, tmp_path, "bob", ["a", *[""] * (len(right) - 1)])
    rows = read_verdicts([ann, bob], key, dialogues)
    assert len(rows) == len(right) + 1
    assert all(row["correct"] for row in rows if row["rater"] == "ann")
    assert rows[-1]["letter"] == "A" and rows[-1]["correct"] == (right[0] == "A")
    assert {row["judge"] for row in rows} == {"people"}
    assert {row["p_a"] for row in rows} == {None}
    once = merged([], rows)
    # The same sheet again changes nothing; another word of the same person goes before the first.
    assert merged(once.to_pylist(), rows).equals(once)
    changed = filled(sheet, tmp_path, "bob", ["b", *[""] * (len(right) - 1)])
    again = merged(once.to_pylist(), read_verdicts([changed], key, dialogues)).to_pylist()
    assert len(again) == len(rows)
    assert [row["letter"] for row in again if row["rater"] == "bob"] == ["B"]


@pytest.mark.parametrize(
    ("letter", "words"), [("C", "verdict is 'C'; allowed: A or B, or nothing"), ("", "nothing is")]
)
def test_what_is_no_verdict_is_refused(
    letter: str,
    words: str,
    sheet: DebateSheet,
    dialogues: dict[Address, Finished],
    tmp_path: Path,
) -> None:
    write_sheet(sheet, RunFolder(tmp_path))
    key = read_debate_key(tmp_path / "key.parquet", "k1")
    path = filled(sheet, tmp_path, "ann", [letter] * len(sheet.shown))
    with pytest.raises(SheetError, match=words):
        read_verdicts([path], key, dialogues)


def test_keys_of_others_are_refused(
    sheet: DebateSheet, dialogues: dict[Address, Finished], tmp_path: Path
) -> None:
    write_sheet(sheet, RunFolder(tmp_path))
    with pytest.raises(SheetError, match="is of study 'k1'; this folder holds 'k2'"):
        read_debate_key(tmp_path / "key.parquet", "k2")
    with pytest.raises(SheetError, match="holds the key of another sheet"):
        write_sheet(debate_sheet("k1", dialogues.values(), 1), RunFolder(tmp_path))
    with pytest.raises(SheetError, match="is no key"):
        read_debate_key(tmp_path / "none.parquet", "k1")
    with pytest.raises(SheetError, match="there are no debates to judge"):
        debate_sheet("k1", [], 0)


async def test_people_have_their_rows_in_the_tables_beside_the_judges(
    sheet: DebateSheet,
    dialogues: dict[Address, Finished],
    tables: dict[str, pa.Table],
    tmp_path: Path,
) -> None:
    write_sheet(sheet, RunFolder(tmp_path))
    key = read_debate_key(tmp_path / "key.parquet", "k1")
    right = ["A" if sheet.key[code][1] == "plain" else "B" for code, _, _ in sheet.shown]
    wrong = ["B" if letter == "A" else "A" for letter in right]
    files = [filled(sheet, tmp_path, "ann", right), filled(sheet, tmp_path, "bob", wrong)]
    given = {**tables, "people": merged([], read_verdicts(files, key, dialogues))}
    plan = settings(**CHANGES)
    before, after = (summary([ITEM], one, plan, 1) for one in (tables, given))
    (table,) = (one for one in after.tables if one.name == "accuracy")
    people = {row[1]: row for row in table.rows if row[0] == "people"}
    # Ann is right of all and Bob of none: the static debate once by each.
    assert people["debate, secret-n4"][2:4] == ["2", "0.500"]
    assert people["interactive debate, secret-n4"][2:4] == ["4", "0.500"]
    assert "people: accuracy 0.500 of 18 verdicts by 2." in after.notes
    # Nothing else changes.
    (unchanged,) = (one for one in before.tables if one.name == "accuracy")
    assert [row for row in table.rows if row[0] != "people"] == list(unchanged.rows)
    results = Results(items={}, tables=given, settings=plan, seed=1, left_out={})
    assert results.judges == ("m", "people")
