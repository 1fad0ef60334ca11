"""A whole study of persuasion in one process, and what is made of its folder afterwards."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from rldf_ray.cli import app
from rldf_ray.console import Progress
from rldf_ray.dataset.given_files import read_rows
from rldf_ray.dataset.imported import PairRow
from rldf_ray.errors import UserError
from rldf_ray.models.base import ChatRequest, Completion, ModelError
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.studies.plans import load_study
from rldf_ray.studies.run import run_study
from tests.protocols.persuasion.script import FALSE, Script, honest, trusts_quotes
from tests.studies.conftest import Played, Stored

SHORT = "{words: 8, least: 3, most: 30}"
STORY = "The grandfather repaired the telephone while his grandson read the manual aloud twice."


def worse_at_last(request: ChatRequest, number: int) -> str:
    """The second sample of a turn invents its quote."""
    return FALSE if number else honest(request, number)


@pytest.fixture
def held(tmp_path: Path, played_by: Played) -> Path:
    """A finished study of three questions, one of them too long."""
    rows = [
        {
            "id": f"q{n}",
            "story": STORY if n else STORY * 9,
            "question": "Who repaired the telephone?",
            "correct": "The grandfather",
            "incorrect": "The grandson",
        }
        for n in range(3)
    ]
    data = tmp_path / "own.jsonl"
    data.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    played_by(Script(worse_at_last, trusts_quotes))
    study(data, tmp_path / "out", "settings.debaters={n2: {best_of: 2}}")
    return tmp_path / "out"


def study(data: Path, out: Path, *more: str) -> None:
    plan = [
        *more,
        f"settings.data={data}",
        "settings.rounds=2",
        "settings.story_tokens=60",
        "settings.oversampling=1",
        f"settings.debate_length={SHORT}",
        f"settings.consultancy_length={SHORT}",
    ]
    run_study("persuasion", load_study("persuasion", "smoke", plan), out, Progress())


def rldf(*words: str) -> str:
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, done.output
    return done.output


def test_a_folder_says_what_was_left_out_and_what_judges_mean(held: Path) -> None:
    report = json.loads((held / "report.json").read_text(encoding="utf-8"))
    reason = "their story is longer than 60 tokens (settings.story_tokens)"
    assert report["facts"]["left_out"] == {reason: 1}
    page = (held / "report.html").read_text(encoding="utf-8")
    assert f"Left out: 1 as {reason}." in page
    assert "Questions left out" in page
    # The page of each question is led to from the report.
    assert 'href="debates/index.html"' in page
    assert (held / "debates/0002.html").exists() and not (held / "debates/0003.html").exists()
    readings = pq.read_table(held / "data/readings.parquet").to_pylist()
    # Naive, expert, two consultancies and a debate of two questions.
    assert len(readings) == 5 * 2
    assert [r["correct"] for r in readings if r["protocol"] == "debate"] == [True, True]


def stronger_wins(request: ChatRequest) -> float:
    """p(A) of a judge that knows the debaters, the first of the alphabet the strongest."""
    found = re.search(r"debate/(\w) v (\w)", request.address)
    if found is None or request.choices == ("Y", "N"):
        return 0.5
    right = 0.9 if found[1] <= found[2] else 0.2
    return 1 - right if "/swapped" in request.address else right


def test_a_swiss_tournament_goes_on_after_a_failure_and_asks_nothing_twice(
    held: Path, tmp_path: Path, played_by: Played
) -> None:
    class Fails(Script):
        async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
            # The second round's, of the last question.
            if request.address.startswith("q2/debate/a v c/2/"):
                raise ModelError("the engine is gone")
            return await super().complete(request)

    data, out = held.parent / "own.jsonl", tmp_path / "swiss"
    plan = (
        "settings.debaters={d: {}, c: {}, b: {}, a: {}}",
        "settings.matches=swiss",
        "settings.protocols=[debate]",
    )
    played_by(Fails(honest, stronger_wins))
    with pytest.raises(ModelError):
        study(data, out, *plan)
    before = journal(out)
    script = Script(honest, stronger_wins)
    played_by(script)
    study(data, out, *plan)
    asked = [request.address for request in script.asked]
    assert len(asked) == len(set(asked)) and not set(before) & set(asked)
    assert sorted(journal(out)) == sorted([*before, *asked])
    outcomes = pq.read_table(out / "data/outcomes.parquet").to_pylist()
    # d meets c and b meets a; then the winners c and a meet, and d and b.
    met = {frozenset((r["correct_debater"], r["incorrect_debater"])) for r in outcomes}
    assert {"".join(sorted(two)) for two in met if len(two) == 2} == {"cd", "ab", "ac", "bd"}
    # Four with themselves and two rounds of four debates, of two questions, in two positions.
    assert len(outcomes) == (4 + 2 * 4) * 2 * 2
    tables = json.loads((out / "report.json").read_text(encoding="utf-8"))["tables"]
    (table,) = (one for one in tables if one["name"] == "swiss")
    assert [row[:2] for row in table["rows"]] == [["a", "2"], ["c", "1"], ["b", "1"], ["d", "0"]]
    assert not list((out / "journal").glob("items*"))


def journal(out: Path) -> list[str]:
    lines = (out / "journal/calls.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["address"] for line in lines]


def test_training_rows_are_of_the_form_that_training_takes(held: Path, tmp_path: Path) -> None:
    output = rldf("study", "rows", str(held), "--out", str(tmp_path / "training"))
    # The correct side of the debate and of its consultancy, two rounds each, of two questions.
    assert "8 rows" in output
    (row, *others) = map(json.loads, (tmp_path / "training/sft.jsonl").read_text().splitlines())
    assert len(others) == 7 and [m["role"] for m in row["prompt"]] == ["system", "user"]
    assert STORY in row["prompt"][1]["content"]
    # Of the correct side alone one candidate is better: in both rounds of the consultancy, and in
    # the first of the debate, which leaves the judge sure of it in the second.
    pairs = read_rows(tmp_path / "training/pairs.jsonl", PairRow)
    assert len(pairs) == 2 * 3
    assert {pair.preference.rejected.content for pair in pairs} == {FALSE}


def test_a_study_in_a_store_is_read_as_its_folder_is(
    held: Path, tmp_path: Path, stored: Stored
) -> None:
    address = stored(held)
    for study_, name in ((str(held), "here"), (address, "there")):
        rldf("study", "rows", study_, "--out", str(tmp_path / name))
        rldf("persuasion", "sheet", study_, "--out", str(tmp_path / name / "people"))
    for file in ("sft.jsonl", "pairs.jsonl", "people/for_raters/sheet.csv", "people/key.parquet"):
        assert (tmp_path / "here" / file).read_bytes() == (tmp_path / "there" / file).read_bytes()


@pytest.mark.parametrize("fetched", [True, False])
def test_verdicts_are_taken_into_a_study_in_a_store(
    held: Path, tmp_path: Path, stored: Stored, fetched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = tmp_path / "people"
    rldf("persuasion", "sheet", str(held), "--out", str(people))
    sheet = filled(people / "for_raters/sheet.csv")
    address = stored(held)
    if fetched:
        rldf("study", "rows", address, "--out", str(tmp_path / "rows"))
    for command in (str(held), address):
        output = rldf(
            "persuasion", "verdicts", command, sheet, "--key", str(people / "key.parquet")
        )
        assert "2 verdicts of people" in output
    # Another machine reads what this one has written.
    monkeypatch.setenv("RLDF_CACHE", str(tmp_path / "third"))
    there = RunFolder.at(address)
    there.fetched("data")
    table = there.read_table("data/people.parquet")
    assert table.equals(pq.read_table(held / "data/people.parquet"))


def test_what_is_no_finished_study_is_refused_by_name(held: Path, tmp_path: Path) -> None:
    def refused(*words: str) -> str:
        done = CliRunner().invoke(app, ["persuasion", *words])
        assert isinstance(done.exception, UserError), done.output
        return str(done.exception)

    key = ("--key", str(tmp_path / "key.parquet"))
    needed = "holds no study; needed: a finished study of persuasion"
    assert needed in refused("sheet", str(tmp_path / "typo"), "--out", str(tmp_path / "people"))
    assert needed in refused("verdicts", str(tmp_path / "typo"), "sheet.csv", *key)
    assert not (tmp_path / "typo").exists()
    (held / "stages/hold.json").unlink()
    assert "has not ended" in refused("verdicts", str(held), "sheet.csv", *key)


def filled(sheet: Path) -> str:
    """A sheet with a verdict on every debate; its path."""
    text = sheet.read_text(encoding="utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    with sheet.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows({**row, "rater": "ann", "verdict": "A"} for row in rows)
    return str(sheet)


def test_what_people_say_of_debates_gets_its_column_once(held: Path, tmp_path: Path) -> None:
    people = tmp_path / "people"
    output = rldf("persuasion", "sheet", str(held), "--out", str(people))
    # One of the debate and the two consultancies of each of two questions.
    assert output.startswith("2 debates")
    command = [
        "persuasion",
        "verdicts",
        str(held),
        filled(people / "for_raters/sheet.csv"),
        "--key",
        str(people / "key.parquet"),
    ]
    before = json.loads((held / "report.json").read_text(encoding="utf-8"))
    assert "2 verdicts of people" in rldf(*command)
    report = json.loads((held / "report.json").read_text(encoding="utf-8"))
    accuracy = next(one for one in report["tables"] if one["name"] == "accuracy")
    assert sum(int(row[2]) for row in accuracy["rows"] if row[0] == "people") == 2
    assert report["facts"]["left_out"] == before["facts"]["left_out"]
    assert "people: accuracy" in (held / "report.html").read_text(encoding="utf-8")
    files = {path: path.read_bytes() for path in held.rglob("*") if path.is_file()}
    assert "nothing new in 2 verdicts" in rldf(*command)
    assert files == {path: path.read_bytes() for path in held.rglob("*") if path.is_file()}
    # Held again with the same command, the study keeps what people said.
    study(held.parent / "own.jsonl", held, "settings.debaters={n2: {best_of: 2}}")
    assert "people: accuracy" in (held / "report.html").read_text(encoding="utf-8")
