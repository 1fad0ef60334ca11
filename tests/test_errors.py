"""One base for every error that a user is expected to meet."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from rldf_ray import cli
from rldf_ray.errors import UserError
from rldf_ray.models.base import BudgetSpentError

ROOT = Path(__file__).parents[1]
SOURCES = [
    path
    for top in ("rldf_ray", "serve", "tune", "benchmarks")
    for path in (ROOT / top).rglob("*.py")
]


def test_every_error_class_of_the_project_derives_from_user_error() -> None:
    bases: dict[str, set[str]] = {}
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and node.name.endswith("Error"):
                bases[node.name] = {base.id for base in node.bases if isinstance(base, ast.Name)}
    assert len(bases) > 30
    derived = {"UserError"}
    while more := {name for name, of in bases.items() if of & derived} - derived:
        derived |= more
    assert bases.keys() - derived == set()


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [(UserError("no plan"), 1, "error: no plan"), (BudgetSpentError("spent"), 3, "stopped: spent")],
)
def test_an_expected_error_is_one_message_and_its_own_status(
    error: UserError, status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing() -> None:
        raise error

    with pytest.raises(SystemExit) as end:
        cli.main(failing)
    assert end.value.code == status
    assert capsys.readouterr().err == f"{message}\n"
