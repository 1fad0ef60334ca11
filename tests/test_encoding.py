"""Text is UTF-8 whatever the locale says: ruff holds what it can infer, this the rest."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = [
    p for name in ("rldf_ray", "serve", "tune", "benchmarks") for p in (ROOT / name).rglob("*.py")
]


def is_text_without_encoding(call: ast.Call) -> bool:
    """Whether a call opens a text file and leaves its encoding to the locale."""
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if any(keyword.arg in ("encoding", None) for keyword in call.keywords):
        return False
    if name == "read_text":
        return not call.args
    if name == "write_text":
        return len(call.args) == 1
    return name == "open" and isinstance(function, ast.Name) and not _is_binary(call)


def _is_binary(call: ast.Call) -> bool:
    modes = [*call.args[1:2], *(k.value for k in call.keywords if k.arg == "mode")]
    return any(isinstance(mode, ast.Constant) and "b" in str(mode.value) for mode in modes)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_text_file_is_opened_as_utf_8(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    lines = [
        n.lineno for n in ast.walk(tree) if isinstance(n, ast.Call) and is_text_without_encoding(n)
    ]
    assert not lines
