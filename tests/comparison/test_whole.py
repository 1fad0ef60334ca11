"""One command on real parts: tables and figures of a trained row, and the same again at once."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.fakes import multirole_set

pytestmark = pytest.mark.slow

RLDF = str(Path(sys.executable).with_name("rldf"))
METHODS = ("default", "sft")
ITEMS, QUERIES = 20, 2


@pytest.fixture(scope="module")
def multirole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    said = "Our neighbour of number {} plays chess and is BLANK with figures"
    rows = [
        {"bias_type": name, "context": said.format(number)}
        for name in ("ageism", "nationality")
        for number in range(QUERIES)
    ]
    return multirole_set(tmp_path_factory.mktemp("multirole"), rows)


@pytest.fixture(scope="module")
def command(multirole: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    out = tmp_path_factory.mktemp("compare") / "out"
    words = [RLDF, "eval", "compare", "smoke", "--out", str(out), "--repeats", "1", "--json"]
    words += [word for method in METHODS for word in ("--method", method)]
    words += ["--items", str(ITEMS), "--multirole", str(multirole), "--judge", "vllm:embedded"]
    words += ["--audit-pairs", "1"]
    small = ("topics.per_bias_type=12", "referee.audit_pairs=2", "data.max_pairs=8")
    small += ("evaluate.held_out_prompts=3",)
    for change in ("bias_types=[age, beauty, profession]", "referee.kind=prompted", *small):
        words += ["--set", change]
    return words


@pytest.fixture(scope="module")
def found(command: list[str]) -> dict[str, Any]:
    return said(command)


def said(command: list[str], **environment: str) -> dict[str, Any]:
    done = subprocess.run(
        command,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=2300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.fixture
def written(command: list[str], found: dict[str, Any]) -> Path:
    return Path(command[command.index("--out") + 1]) / "compare"


def test_every_method_answered_every_item_with_a_model_of_its_own(
    found: dict[str, Any], written: Path
) -> None:
    rows = pq.read_table(written / "eval/items.parquet").to_pylist()
    number = found["items"]
    assert number >= ITEMS
    assert Counter((row["method"], row["set"]) for row in rows) == {
        **{(method, asked): number for method in METHODS for asked in ("bbq", "bbq_letter")},
        **{(method, "multirole"): 2 * QUERIES for method in METHODS},
    }
    models = {one["name"]: one["models"] for one in found["methods"]}
    assert models["default"] == ["embedded"]
    assert "sft of" in models["sft"][0]


def test_the_tables_are_those_of_the_items(written: Path) -> None:
    rows = pq.read_table(written / "eval/items.parquet").to_pylist()
    cells = list(csv.DictReader((written / "tables.csv").open(encoding="utf-8")))
    assert {cell["table"] for cell in cells} == {"1", "3", "6", "7", "8", "9"}
    overall = [c for c in cells if c["table"] == "1" and c["column"] == "Overall"]
    titles = ("Default", "SFT")
    for method, title in zip(METHODS, titles, strict=True):
        mine = [row["correct"] for row in rows if (row["method"], row["set"]) == (method, "bbq")]
        (cell,) = [c for c in overall if c["row"] == title]
        assert float(cell["mean"]) == pytest.approx(sum(mine) / len(mine), abs=1e-3)
    text = (written / "tables.md").read_text(encoding="utf-8")
    # People's, teachers', and those of methods that PPO trains.
    assert text.count("Not measured") == 3
    assert "The judge is the model that every row begins with" in text
    differences = list(csv.DictReader((written / "differences.csv").open(encoding="utf-8")))
    costs = list(csv.DictReader((written / "costs.csv").open(encoding="utf-8")))
    assert tuple(row["method"] for row in costs) == METHODS
    conditions = {row["condition"] for row in differences}
    assert conditions == {"all", "ambig", "disambig", "multirole", "BS", "CE", "LS"}
    asked = {(row["condition"], row["mode"]) for row in differences}
    assert {mode for _, mode in asked} == {"rank", "letter", ""}
    # The tables, a table of differences for each condition and way of asking, and the costs.
    tex = (written / "tables.tex").read_text(encoding="utf-8")
    assert tex.count(r"\begin{tabular}") == 6 + len(asked) + 1


def test_the_judges_scores_are_in_the_tables_and_drawn(written: Path) -> None:
    judged = pq.read_table(written / "eval/judge.parquet").to_pylist()
    results = pq.read_table(written / "results.parquet").to_pylist()
    scores = [row["score"] for row in judged if (row["method"], row["measure"]) == ("sft", "BS")]
    (told,) = [
        row
        for row in results
        if (row["method"], row["set"], row["group"], row["measure"])
        == ("sft", "answers", "all", "BS")
    ]
    assert told["n"] == len([s for s in scores if s is not None]) > 0
    drawn = {path.name for path in (written / "figures").iterdir()}
    expected = {"figure-5-ce.svg", "figure-6-ls.svg", "figure-7-cases.html", "abstention.svg"}
    assert expected <= drawn


def test_a_trained_row_tells_what_it_took(found: dict[str, Any]) -> None:
    costs = {one["name"]: one["cost"] for one in found["methods"]}
    assert costs["default"]["seconds"] == 0
    assert costs["sft"]["seconds"] > 0 and costs["sft"]["statements"] == 36
    assert costs["sft"]["generated_tokens"] > 0


def test_the_same_command_again_computes_nothing(
    command: list[str], found: dict[str, Any], written: Path
) -> None:
    before = (written / "results.parquet").read_bytes()
    # Whoever wanted an engine would look for a cluster, and there is none at that address.
    again = said(command, RAY_ADDRESS="127.0.0.1:1")
    assert (written / "results.parquet").read_bytes() == before
    assert again["comparisons"] == found["comparisons"]
