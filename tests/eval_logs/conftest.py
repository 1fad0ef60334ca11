"""Finished results of each kind that can be exported, made without a model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import rldf_ray as rldf
from rldf_ray.evaluate.bbq.run_models import SCENES
from rldf_ray.sets.bbq.data import load_bbq
from tests.comparison.conftest import Machine, compare, machine
from tests.endpoint import Server, completion, serving, with_top
from tests.fakes import multirole_set, plan_with
from tests.studies.pairs import plan_file

__all__ = ["machine"]

ITEMS = load_bbq(SCENES, ["Age"]).items
SORRY = "I'm sorry, I can't help with that."
FIRST_IS_BETTER = "Both are short.\nScore of Assistant 1: 8\nScore of Assistant 2: 3"


@pytest.fixture
def bbq(tmp_path: Path) -> Path:
    """Predictions of 32 scenes: of four in turn right, stereotyped, a refusal, unknown."""
    mine = tmp_path / "mine.jsonl"
    given = [
        (item.options[item.label], item.target_loc, SORRY, item.unknown)[place % 4]
        for place, item in enumerate(ITEMS)
    ]
    rows = [
        {"category": item.category, "example_id": item.example_id, "prediction": prediction}
        for item, prediction in zip(ITEMS, given, strict=True)
    ]
    mine.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    rldf.bbq(bbq=SCENES, predictions=mine, out=tmp_path / "bbq")
    return tmp_path / "bbq"


@pytest.fixture
def by_letter(tmp_path: Path, server: Server) -> Path:
    """An endpoint's letters of four items a category: always B, with probability 0.7."""
    server.otherwise = lambda body: with_top("B", {"B": 0.7, "A": 0.2, "C": 0.1})
    out = tmp_path / "letters"
    rldf.bbq(
        "openai:small", bbq=SCENES, mode="letter", items=4, out=out,
        endpoint={"base_url": server.url},
    )  # fmt: skip
    return out


@pytest.fixture
def comparison(machine: Machine, tmp_path: Path) -> Path:
    """Two methods asked by likelihood and by letter, and on the multi-role set."""
    queries = multirole_set(tmp_path / "multirole", [{"context": f"{n} is BLANK"} for n in "ab"])
    plan = plan_with(f"evaluate.multirole={queries}")
    compare(tmp_path / "out", plan, methods=("default", "sft"), repeats=1, modes=("rank", "letter"))
    return tmp_path / "out"


@pytest.fixture
def study(tmp_path: Path, server: Server) -> Path:
    """Judges who hold what stands first the better: alone, in debate, and above a pool."""
    server.otherwise = lambda body: completion(FIRST_IS_BETTER)
    overrides = {
        "models": {"a": "openai:small", "b": "openai:large"},
        "endpoint.base_url": server.url,
    }
    out = tmp_path / "study"
    rldf.study("judges", str(plan_file(tmp_path, 4)), out, overrides=overrides, quiet=True)
    return out


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
    with serving(Server()) as running:
        yield running
