"""Items that settings were chosen on are declared, left out, and said."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rldf_ray.comparison.selection import Selection
from rldf_ray.evaluate.bbq.run_models import load_items
from rldf_ray.plan import Plan, PlanError
from tests.comparison.conftest import Machine, compare
from tests.fakes import plan_with

METHODS = ("default", "cot")


def few(*overrides: str) -> Plan:
    """A sample of the shipped scenes that leaves some over."""
    return plan_with("evaluate.items_per_category=4", *overrides)


def asked(out: Path) -> set[str]:
    rows = pq.read_table(out / "compare/eval/items.parquet").to_pylist()
    return {row["item_id"] for row in rows}


def test_items_of_an_earlier_comparison_are_not_asked_again(
    machine: Machine, tmp_path: Path
) -> None:
    first = compare(tmp_path / "first", few(), repeats=1, methods=METHODS)
    items = len(asked(tmp_path / "first"))
    assert first.summary["selection"] == {"dev_items": 0, "files": {}, "templates_shared": 0}
    assert any("No items are declared" in note for note in first.notes)
    for folder in (
        tmp_path / "first",
        tmp_path / "first/compare",
        tmp_path / "first/compare/eval/items.parquet",
    ):
        out = tmp_path / f"second-{len(folder.parts)}"
        dev = (str(folder),)
        second = compare(out, few(), repeats=1, methods=METHODS, dev_items=dev)
        assert len(asked(out)) == items and not asked(out) & asked(tmp_path / "first")
        said = json.loads((out / "compare/compare.json").read_text(encoding="utf-8"))["selection"]
        assert said["dev_items"] == items and len(said["files"]) == 1
        (note,) = [note for note in second.notes if note.startswith("Settings were chosen on")]
        assert f"on {items} other items, none of which is asked here" in note
        assert f"; {said['templates_shared']} of the " in note
        text = (out / "compare/tables.md").read_text(encoding="utf-8")
        assert note in text


def test_items_left_out_are_gone_before_the_sample_is_drawn() -> None:
    plan = few()
    everything = load_items(plan_with("evaluate.items_per_category=null")).items
    first = load_items(plan).items
    second = load_items(plan, without={item.key for item in first}).items
    assert len(second) == len(first) and not {i.key for i in first} & {i.key for i in second}
    assert {i.key for i in second} <= {i.key for i in everything}


def test_where_no_comparison_is_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"--dev-items .*no comparison is there; give its folder"):
        Selection.of([str(tmp_path)])
