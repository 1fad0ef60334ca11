"""`rldf show`: the right statements, whole, and nothing that drives the terminal."""

from __future__ import annotations

import io
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from rldf_ray import cli
from rldf_ray.commands.show import Contents, ShownDebate, Wanted, page
from rldf_ray.plan import load_plan
from rldf_ray.protocols.transcripts import ENDED_DEBATES, Transcripts
from rldf_ray.records import STATEMENT_SCHEMA, Statement, table_of
from rldf_ray.storage.run_folder import RunFolder, RunFolderError
from tests.fakes import judgement, opinion, statement

EVIL = "red \x1b[31m alert \x07\x9b2J"


def say(text: str, **changes: Any) -> Statement:
    return statement(text, 8.0, "high", topic=opinion(0), **changes)


STATEMENTS = [
    say("A says it.", rank=2, expected_score=7.25),
    statement(EVIL, 1.0, "low", topic=opinion(0), role=1, identity="40-year-old", rank=1),
    say("A says it again.", round=2),
    statement("B doubts.", None, None, topic=judgement(1), failure="did not parse"),
    statement("C", 2.0, "low", topic=opinion(2, "beauty"), identity="plain person", rank=1),
]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    table = table_of(STATEMENTS, STATEMENT_SCHEMA)
    RunFolder(tmp_path).write_table("data/transcripts.parquet", table)
    return tmp_path


def show(*arguments: str) -> str:
    result = CliRunner().invoke(cli.app, ["show", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def chosen_debates(run: Path, wanted: Wanted) -> list[ShownDebate]:
    contents = Contents(RunFolder(run))
    return list(contents.read(contents.chosen(wanted)))


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Wanted(), [s.text for s in STATEMENTS]),
        (Wanted(debate="2"), ["B doubts."]),
        (Wanted(debate="beauty-o2-0"), ["C"]),
        (Wanted(bias_type="beauty"), ["C"]),
        (Wanted(round=2), ["A says it again."]),
        (Wanted(role="1"), [EVIL]),
        (Wanted(role="40-year-old"), [EVIL]),
        (Wanted(label="low"), [EVIL, "C"]),
        (Wanted(label="low", bias_type="age"), [EVIL]),
        (Wanted(debate="7"), []),
    ],
)
def test_what_is_wanted_is_shown(wanted: Wanted, found: list[str], run: Path) -> None:
    assert [s.text for d in chosen_debates(run, wanted) for s in d.statements] == found


def test_debates_keep_their_number_whatever_is_left_out(run: Path) -> None:
    (debate,) = chosen_debates(run, Wanted(bias_type="beauty"))
    assert debate.number == 3


def test_plain_text_where_stdout_is_no_terminal(run: Path) -> None:
    lines = show(str(run)).splitlines()
    assert lines[:5] == [
        "Debate 1: age, opinion (age-o0-0)",
        opinion(0).text,
        "",
        "Round 1, 20-year-old: said 8, expected 7.25, rank 2, high bias",
        "  A says it.",
    ]
    assert "Round 1, 20-year-old: no score, not ranked, did not parse" in lines
    assert "Debate 2: age, judgement, clue withheld (age-j1-0)" in lines


def test_control_characters_of_a_model_do_not_reach_the_terminal(run: Path) -> None:
    assert "  red [31m alert 2J" in show(str(run)).splitlines()


def test_on_a_terminal_the_pager_gets_the_whole_text_in_colour(
    run: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paged: list[str] = []
    monkeypatch.setattr("rich.pager.SystemPager.show", lambda self, content: paged.append(content))
    monkeypatch.delenv("NO_COLOR", raising=False)
    console = Console(file=io.StringIO(), force_terminal=True, color_system="256", width=60)
    page(chosen_debates(run, Wanted()), console)
    (content,) = paged
    assert "\x1b[" in content and "A says it again." in content and "\x07" not in content


def test_json_has_every_column_of_the_statements(run: Path) -> None:
    found = json.loads(show(str(run), "--json", "--high"))
    assert [debate["number"] for debate in found] == [1]
    assert found[0]["context"] == opinion(0).text
    assert [s["text"] for s in found[0]["statements"]] == ["A says it.", "A says it again."]
    assert {*found[0]["statements"][0], *found[0]} >= set(STATEMENT_SCHEMA.names)


def test_nothing_found_is_an_error_that_says_what_there_is(run: Path) -> None:
    result = CliRunner().invoke(cli.app, ["show", str(run), "--bias-type", "shoes"])
    assert isinstance(result.exception, RunFolderError)
    assert all(part in str(result.exception) for part in ("shoes", "3 debates", "age, beauty"))


def test_a_run_without_debates_says_which_stage_is_missing(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli.app, ["show", str(tmp_path)])
    assert isinstance(result.exception, RunFolderError)
    assert "run the stage that writes it first" in str(result.exception)


def test_while_debates_are_held_those_that_have_ended_are_shown(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    with folder.locked(), closing(Transcripts(folder.path(ENDED_DEBATES), 3)) as transcripts:
        transcripts.keep(2, STATEMENTS[3:4])
        transcripts.keep(0, STATEMENTS[:3])
        with (tmp_path / ENDED_DEBATES).open("ab") as file:
            file.write(b'[{"debate_id": "torn')
        result = CliRunner().invoke(cli.app, ["show", str(tmp_path), "--json"])
    assert "debates have not finished" in result.stderr
    debates = json.loads(result.stdout)
    assert [d["debate_id"] for d in debates] == ["age-j1-0", "age-o0-0"]
    assert [s["text"] for s in debates[1]["statements"]] == [s.text for s in STATEMENTS[:3]]


def refused(run: Path) -> str:
    error = CliRunner().invoke(cli.app, ["show", str(run)]).exception
    assert isinstance(error, RunFolderError)
    return str(error)


def test_of_another_protocols_run_it_is_said_where_its_turns_are(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    plan = load_plan("smoke", ["debate.protocol=mabrf"])
    folder.write_text("plan.yaml", plan.to_yaml())
    assert "the protocol mabrf" in refused(tmp_path)
    folder.finish("debates", plan.digest(), {})
    assert f"{tmp_path}/source/data/turns.parquet" in refused(tmp_path)


def test_a_run_that_was_begun_with_pairs_has_no_debates(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    plan = load_plan("smoke")
    folder.write_text("plan.yaml", plan.to_yaml())
    assert "run the stage that writes it first" in refused(tmp_path)
    folder.finish("debates", plan.digest(), {})
    assert "has no debates: it was begun with pairs" in refused(tmp_path)
