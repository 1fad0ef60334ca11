"""Texts of models and files on a terminal: they are read, and never obeyed."""

from __future__ import annotations

import ast
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table

from rldf_ray import cli
from rldf_ray.console import Progress, TextConsole, harmless
from rldf_ray.records import STATEMENT_SCHEMA, table_of
from rldf_ray.storage.run_folder import RunFolder
from tests.fakes import opinion, statement

ROOT = Path(__file__).resolve().parents[1]
EVIL = "\x1b]0;title\x07\x1b[2J\x9b31m\rover[bold red]w[/] :smile: \u202etxt.exe\u2066 [/nope]"
SHOWN = "]0;title[2J31mover[bold red]w[/] :smile: <U+202E>txt.exe<U+2066> [/nope]"


@given(st.text())
def test_whatever_a_text_is_it_holds_no_control_and_no_direction(text: str) -> None:
    kept = harmless(text)
    assert all(c in "\n\t" or (ord(c) >= 0x20 and not 0x7F <= ord(c) < 0xA0) for c in kept)
    assert not {*kept} & {
        *"\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    }
    assert harmless(kept) == kept


def test_plain_text_is_as_it_was() -> None:
    text = "Line one,\n\tline two: “größer”, 是, [1], :) \U0001f600 אבג"
    assert harmless(text) == text
    assert harmless(EVIL) == SHOWN


@pytest.mark.parametrize("terminal", [False, True])
def test_nothing_of_a_text_reaches_the_terminal_by_a_table_or_a_line(terminal: bool) -> None:
    file = io.StringIO()
    console = TextConsole(
        file=file, width=400, force_terminal=terminal, color_system=None, soft_wrap=True
    )
    table = Table("model", f"head {EVIL}", title=EVIL, box=None)
    table.add_row(EVIL, "1")
    console.print(table)
    console.print(EVIL)
    Progress(console).say(EVIL)
    with Progress(console).bar(EVIL, 2) as bar:
        bar.advance()
    assert file.getvalue().count(SHOWN) >= 5
    for harm in ("\x1b]", "\x1b[2J", "\x07", "\x9b", "\u202e"):
        assert harm not in file.getvalue()


def test_an_error_says_what_was_wrong_and_no_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text('"\\e]0;mine\\a\\u202e": 1\nmodel: "\\e[2J"\n', encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["rldf", "plan", "validate", str(plan)])
    with pytest.raises(SystemExit):
        cli.main()
    said = capsys.readouterr().err
    assert "no such field" in said and "\x1b" not in said and "\u202e" not in said


def test_where_the_locale_has_no_such_character_its_code_is_printed(tmp_path: Path) -> None:
    said = [statement("“größer” — 是", 8.0, "high", topic=opinion(0))]
    RunFolder(tmp_path).write_table("data/transcripts.parquet", table_of(said, STATEMENT_SCHEMA))
    code = "from rldf_ray import cli; cli.main()"
    environment = {**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    environment.pop("PYTHONIOENCODING", None)
    for words in (["show", str(tmp_path)], ["plan", "show", "größer"]):
        done = subprocess.run(
            [sys.executable, "-X", "utf8=0", "-c", code, *words],
            capture_output=True,
            text=True,
            encoding="ascii",
            env=environment,
            cwd=ROOT,
            timeout=300,
            check=False,
        )
        out = done.stdout + done.stderr
        assert "Traceback" not in out and ("\\u201cgr\\xf6\\xdfer" in out or "neither" in out)


# What is JSON or YAML, which escape such characters, or what `harmless` has been asked for.
PRINTS = {
    "rldf_ray/console.py": 1,
    "rldf_ray/cli.py": 4,
    "rldf_ray/commands/compare.py": 1,
    "rldf_ray/commands/doctor.py": 2,
    "rldf_ray/commands/serve.py": 3,
    "rldf_ray/commands/show.py": 2,
    "rldf_ray/commands/summary.py": 1,
    "rldf_ray/evaluate/bbq/tables.py": 1,
    "rldf_ray/evaluate/judge/tables.py": 1,
    "rldf_ray/evaluate/multirole/run.py": 1,
    "rldf_ray/evaluate/people/run.py": 1,
    "rldf_ray/evaluate/self_identification/run.py": 1,
    "serve/compiling.py": 1,
}


def test_texts_go_to_the_terminal_by_one_room() -> None:
    prints: dict[str, int] = {}
    for path in (
        p for package in ("rldf_ray", "serve", "tune") for p in (ROOT / package).rglob("*.py")
    ):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                name = path.relative_to(ROOT).as_posix()
                assert node.func.id != "Console", f"{name}: TextConsole"
                if node.func.id == "print":
                    prints[name] = prints.get(name, 0) + 1
    assert prints == PRINTS
