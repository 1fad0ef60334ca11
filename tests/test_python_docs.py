"""docs/python.md is true: its blocks run as they are written, as cells of a notebook would."""

from __future__ import annotations

import ast
import inspect
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rldf_ray as rldf
from rldf_ray.evaluate.bbq.run_models import SCENES
from tests.comparison.conftest import Machine, machine
from tests.endpoint import Answer, Server, completion, made_up, serving
from tests.python_page import BLOCKS, PAGE, block_with

__all__ = ["machine"]

ROOT = Path(__file__).parents[1]
LOADS = ("rldf.run(", "rldf.compare(", "rldf.serve(")
FUNCTIONS = {name for name in rldf.__all__ if inspect.isfunction(getattr(rldf, name))}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the page's files are."""
    monkeypatch.chdir(tmp_path)
    pair = {"question": "Which?", "answer1": "This.", "answer2": "That.", "label": 1}
    (tmp_path / "pairs.jsonl").write_text(json.dumps(pair) + "\n", encoding="utf-8")
    answers = [
        {"method": m, "prompt_id": "p", "bias_type": "age", "prompt": "Who?", "answer": "All."}
        for m in ("Default", "RLDF")
    ]
    (tmp_path / "answers.jsonl").write_text(
        "".join(f"{json.dumps(row)}\n" for row in answers), encoding="utf-8"
    )
    return tmp_path


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
    plain = made_up()

    def answer(body: dict[str, Any]) -> Answer:
        return completion("40") if "0 to 100" in str(body["messages"]) else plain(body)

    with serving(Server(otherwise=answer)) as server:
        yield server


async def as_cell(block: str, names: dict[str, Any]) -> None:
    """Run a block that may await."""
    code = compile(block, "docs/python.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    waiting = eval(code, names)
    if waiting is not None:
        await waiting


async def test_what_asks_endpoints(endpoint: Server, folder: Path) -> None:
    names: dict[str, Any] = {}
    for block in BLOCKS:
        if not any(call in block for call in LOADS):
            here = block.replace("http://localhost:8000/v1", endpoint.url)
            await as_cell(here.replace("/data/BBQ", str(SCENES)), names)
    assert names["run"].statements.num_rows and names["scored"].answers.num_rows
    assert names["studied"].notes and names["judged"].scores
    assert list((folder / "logs").glob("*.json"))


async def test_a_comparison(machine: Machine, folder: Path) -> None:
    names = {"rldf": rldf}
    await as_cell(block_with("rldf.compare("), names)
    assert set(names["compared"].items["method"]) == {"default", "sft"}


@pytest.mark.slow
async def test_what_serves_a_model(folder: Path) -> None:
    """The block of `rldf.run` is what tests/test_end_to_end.py runs."""
    await as_cell(block_with("rldf.serve("), {"rldf": rldf})


def test_every_function_and_twin_is_in_the_page() -> None:
    assert all(f"`{name}`" in PAGE for name in FUNCTIONS)
    plain = {name for name in FUNCTIONS if f"a{name}" in FUNCTIONS}
    assert plain | {f"a{name}" for name in plain} == FUNCTIONS
    assert all(f"rldf.{name}(" in PAGE or f"rldf.a{name}(" in PAGE for name in plain)


def test_every_extra_is_in_the_page_and_the_readme() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for extra in project["optional-dependencies"].keys() - {"dev"}:
        assert f"`[{extra}]`" in PAGE and f"`[{extra}]`" in readme
    assert "one person's rebuild" in readme and len(readme.split()) <= 1200
