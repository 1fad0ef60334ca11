"""A whole study of persuasion in one process, and what is made of its folder afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from rldf_ray.cli import app
from rldf_ray.console import Progress
from rldf_ray.dataset.given_files import read_rows
from rldf_ray.dataset.imported import PairRow
from rldf_ray.models.base import ChatRequest
from rldf_ray.studies.plans import load_study
from rldf_ray.studies.run import run_study
from tests.protocols.persuasion.script import FALSE, Script, honest, trusts_quotes
from tests.studies.conftest import Played

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
    study(data, tmp_path / "out")
    return tmp_path / "out"


def study(data: Path, out: Path) -> None:
    plan = [
        f"settings.data={data}",
        "settings.rounds=2",
        "settings.story_tokens=60",
        "settings.oversampling=1",
        f"settings.debate_length={SHORT}",
        f"settings.consultancy_length={SHORT}",
        "settings.debaters={n2: {best_of: 2}}",
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


def test_training_rows_are_of_the_form_that_training_takes(held: Path, tmp_path: Path) -> None:
    output = rldf("persuasion", "rows", str(held), "--out", str(tmp_path / "training"))
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
