"""A group's first command runs where no command is named."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from rldf_ray.commands.groups import DefaultCommandGroup

group = typer.Typer(cls=DefaultCommandGroup, no_args_is_help=True)
app = typer.Typer()
app.add_typer(group, name="data")


@app.callback()
def main() -> None:
    """More than one command, so that the group keeps its name."""


@group.command()
def build(folder: str, redo: bool = False) -> None:
    """Build the tables."""
    print(f"build {folder} {redo}")


@group.command()
def export(folder: str) -> None:
    """Take them elsewhere."""
    print(f"export {folder}")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["runs/a"], "build runs/a False"),
        (["runs/a", "--redo"], "build runs/a True"),
        (["--redo", "runs/a"], "build runs/a True"),
        (["build", "runs/a"], "build runs/a False"),
        (["export", "runs/a"], "export runs/a"),
        (["./export"], "build ./export False"),
    ],
)
def test_the_first_command_runs_where_none_is_named(words: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["data", *words])
    assert result.exit_code == 0, result.output
    assert result.output.strip() == said


@pytest.mark.parametrize("words", [[], ["--help"]])
def test_help_is_the_groups_own(words: list[str]) -> None:
    result = CliRunner().invoke(app, ["data", *words])
    assert "Build the tables." in result.output
    assert "Take them elsewhere." in result.output


def test_an_unknown_option_is_an_error_of_the_first_command() -> None:
    result = CliRunner().invoke(app, ["data", "runs/a", "--nonsense"])
    assert result.exit_code == 2
    assert "--nonsense" in result.output
