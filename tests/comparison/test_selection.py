"""Items that settings were chosen on are declared, left out, and said."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rldf_ray.comparison.multirole import queries_of
from rldf_ray.comparison.results import ITEM_SCHEMA
from rldf_ray.comparison.selection import Selection, short_note
from rldf_ray.comparison.settings import Settings
from rldf_ray.evaluate.bbq.run_models import load_items
from rldf_ray.evaluate.multirole.data import MultiroleError
from rldf_ray.plan import Plan, PlanError
from rldf_ray.sets.bbq.items import BBQError, BBQItem
from tests.comparison.conftest import Machine, compare
from tests.evaluate.bbq.bbq_files import row, write
from tests.fakes import multirole_set, plan_with

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
    assert first.summary["selection"] == {
        "dev_items": 0, "dev_queries": 0, "of_other_sets": 0, "files": {}, "templates_shared": 0,
    }  # fmt: skip
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
        Selection.of([str(tmp_path)], few())


def left(folder: Path, items: Sequence[BBQItem], set_: str = "bbq") -> str:
    """The table of a comparison that asked these items."""
    rows = [
        {
            "set": set_,
            "group": item.category,
            "item_id": f"{item.category}/{item.example_id}",
            "template": item.question_index,
            "condition": item.condition,
            "polarity": item.polarity,
            "label": item.label,
            "unknown": item.unknown,
        }
        for item in items
    ]
    path = folder / "eval/items.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    old = pq.read_table(path).to_pylist() if path.exists() else []
    pq.write_table(pa.Table.from_pylist([*old, *rows], schema=ITEM_SCHEMA), path)
    return str(folder)


def bbq_of(folder: Path, groups: int) -> Path:
    """A folder of BBQ's files with so many groups of four questions about age."""
    write(folder / "Age.jsonl", [row(number) for number in range(4 * groups)])
    return folder


def test_scenes_are_not_taken_for_items_of_bbq_with_their_numbers(tmp_path: Path) -> None:
    """Both have a category Age, numbers from 0 and templates from 1."""
    plan = plan_with(f"evaluate.bbq={bbq_of(tmp_path / 'bbq', 8)}")
    scenes = load_items(few()).items
    dev = left(tmp_path / "dev", scenes)
    found = Selection.of([dev], plan)
    assert (found.items, found.templates, found.others) == (frozenset(), frozenset(), len(scenes))
    items = load_items(plan, without=found.items).items
    assert len(items) == 8
    assert found.note(items) == (
        f"Settings were chosen on {len(scenes)} items of other sets than those asked here, which "
        "leave out none of these."
    )
    assert found.as_dict(items)["of_other_sets"] == len(scenes)


def test_a_corrected_label_leaves_an_item_what_it_was(tmp_path: Path) -> None:
    items = load_items(few()).items
    first, *others = load_items(plan_with()).items
    corrected = [replace(first, label=(first.label + 1) % 3), *others]
    found = Selection.of([left(tmp_path, corrected)], few())
    assert found.others == 0 and first.key in found.items
    assert {item.key for item in items} <= found.items | {first.key}


def test_queries_of_an_earlier_comparison_are_not_asked_again(tmp_path: Path) -> None:
    rows = [{"bias_type": "ageism", "context": f"On day {n} he was BLANK"} for n in range(12)]
    settings = Settings(queries=4)
    plan = few(f"evaluate.multirole={multirole_set(tmp_path / 'set', rows)}")
    first = queries_of(plan, settings)
    assert first is not None
    dev = left(tmp_path / "dev", load_items(few()).items)
    left(tmp_path / "dev", first.items, "multirole")
    found = Selection.of([dev], plan)
    assert found.queries == {item.key for item in first.items} and found.others == 0
    second = queries_of(plan, settings, found.queries)
    assert second is not None and len(second.items) == 4
    assert not {i.key for i in first.items} & {i.key for i in second.items}
    note = found.note(load_items(plan, without=found.items).items)
    assert "Settings were chosen on 4 other queries of the multi-role set, none of which" in note
    # Where the set is not asked, they are none of what is.
    assert Selection.of([dev], few()).others == 4
    with pytest.raises(MultiroleError, match=r"no query about age is left of 12, .*--dev-items"):
        queries_of(plan, settings, {item.key for item in first.items} | every_key(plan))


def every_key(plan: Plan) -> set[tuple[str, int]]:
    queries = queries_of(plan, Settings())
    assert queries is not None
    return {item.key for item in queries.items}


def test_a_category_that_comes_out_short_is_noted(tmp_path: Path) -> None:
    plan = plan_with(f"evaluate.bbq={bbq_of(tmp_path, 6)}", "evaluate.items_per_category=16")
    whole = load_items(plan)
    assert short_note(plan, whole.items) == []
    dev = {("Age", number) for number in range(15)}
    rest = load_items(plan, without=dev).items
    assert len(rest) == 9
    (note,) = short_note(plan, rest)
    assert note == (
        "Fewer items than the 16 of a category that were to be drawn, all that is left of it, "
        "balanced or not: Age 9 (4 of them ambiguous)."
    )
    # A sample is of whole blocks of four.
    assert short_note(few(), load_items(few()).items) == []


def test_what_was_left_out_is_named_where_nothing_can_be_drawn(tmp_path: Path) -> None:
    folder = bbq_of(tmp_path, 6)
    plan = plan_with(f"evaluate.bbq={folder}", "evaluate.items_per_category=8")
    every = {("Age", number) for number in range(24)}
    with pytest.raises(
        BBQError, match=r"none of its 24 items is left, as all were left out.*--dev"
    ):
        load_items(plan, without=every)
    ambiguous = {("Age", number) for number in range(0, 24, 2)}
    with pytest.raises(
        BBQError, match=r"of the 12 items left no .*: 12 of 24 were left out .*--dev"
    ):
        load_items(plan, without=ambiguous)
