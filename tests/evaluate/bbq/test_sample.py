"""Samples of a category: balanced, siblings together, the same with the same seed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from rldf_ray.sets.bbq.data import load_bbq
from rldf_ray.sets.bbq.items import BBQItem
from tests.evaluate.bbq.bbq_files import SHARED_BBQ, needs_published_data, row, write


def kinds(items: tuple[BBQItem, ...]) -> set[int]:
    """How often each (condition, polarity) occurs; one number if balanced."""
    return set(Counter((item.condition, item.polarity) for item in items).values())


def questions(items: tuple[BBQItem, ...]) -> set[int]:
    """How many items each question of a scene has; {2} if siblings are together."""
    scene = [item.context.partition(". ")[0].rstrip(".") for item in items]
    return set(Counter(zip(scene, [item.question for item in items], strict=True)).values())


@pytest.mark.parametrize(("limit", "taken"), [(4, 4), (7, 4), (20, 20), (39, 36), (40, 40)])
def test_a_limit_keeps_the_balance_and_the_siblings(tmp_path: Path, limit: int, taken: int) -> None:
    write(tmp_path / "Age.jsonl", [row(number) for number in range(40)])
    items = load_bbq(tmp_path, limit_per_category=limit).items
    assert len(items) == taken
    assert kinds(items) == {taken // 4}
    assert questions(items) == {2}
    assert [item.example_id for item in items] == sorted(item.example_id for item in items)


def test_a_sample_is_spread_over_the_templates(tmp_path: Path) -> None:
    write(tmp_path / "Age.jsonl", [row(number) for number in range(48)])
    items = load_bbq(tmp_path, limit_per_category=24).items
    assert Counter(item.question_index for item in items) == {"1": 8, "2": 8, "3": 8}


def test_a_sample_repeats_with_its_seed_only(tmp_path: Path) -> None:
    for category in ("Age", "SES"):
        lines = [row(number, category=category) for number in range(400)]
        write(tmp_path / f"{category}.jsonl", lines)
    once = load_bbq(tmp_path, limit_per_category=40, seed=1).items
    assert once == load_bbq(tmp_path, limit_per_category=40, seed=1).items
    assert once != load_bbq(tmp_path, limit_per_category=40, seed=2).items
    assert once[:40] == load_bbq(tmp_path, ["Age"], limit_per_category=40, seed=1).items


def test_a_small_category_is_taken_whole(tmp_path: Path) -> None:
    write(tmp_path / "Age.jsonl", [row(number) for number in range(5)])
    assert len(load_bbq(tmp_path, limit_per_category=5).items) == 5


def test_siblings_are_found_in_any_order_and_loners_left_out(tmp_path: Path) -> None:
    apart = sorted(range(24), key=lambda number: (number % 2, -number))
    lonely = [row(number) for number in (100, 105, 110)]
    write(tmp_path / "Age.jsonl", [*lonely, *(row(number) for number in apart)])
    items = load_bbq(tmp_path, limit_per_category=26).items
    assert {item.example_id for item in items} == set(range(24))


def test_the_scarcer_polarity_sets_the_size(tmp_path: Path) -> None:
    write(
        tmp_path / "Age.jsonl",
        [row(number) for number in range(40) if number % 4 < 2 or number < 8],
    )
    items = load_bbq(tmp_path, limit_per_category=20).items
    assert kinds(items) == {2}


@needs_published_data
def test_a_sample_of_the_published_files_takes_whole_groups_of_four() -> None:
    items = load_bbq(SHARED_BBQ, ["Age", "Religion"], limit_per_category=60).items
    assert len(items) == 120
    groups = Counter((item.category, item.example_id // 4) for item in items)
    assert set(groups.values()) == {4}
