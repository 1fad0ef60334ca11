"""Samples of a category: balanced, siblings together, the same with the same seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.evaluate.bbq.run_models import SCENES
from rldf_ray.sets.bbq.data import load_bbq
from rldf_ray.sets.bbq.items import BBQItem, BBQSet, Polarity
from rldf_ray.sets.bbq.sample import balanced_sample
from rldf_ray.sets.bbq.score import BBQScores, score
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
    items = load_bbq(SHARED_BBQ, ["Age", "Religion"], limit_per_category=64).items
    assert len(items) == 128
    groups = Counter((item.category, item.example_id // 4) for item in items)
    assert set(groups.values()) == {4}


# ---- truths that agree with the stereotype

TRUTHS = (True, False, None)
POLARITIES: tuple[Polarity, ...] = ("neg", "nonneg")
UNKNOWN = 2


def always_right(items: Sequence[BBQItem]) -> BBQScores:
    """The scores of a model that is always right."""
    return score(items, {item.key: item.label for item in items})


def pair(number: int, polarity: Polarity, truth: bool | None, template: int) -> list[BBQItem]:
    """A question without and with what settles it, alone in its scene."""
    both: dict[str, Any] = {
        "category": "Age",
        "question_index": str(template),
        "polarity": polarity,
        "question": f"Who is {polarity}?",
        "options": ("The old one", "The young one", "Not known"),
        "unknown": UNKNOWN,
        "target_loc": None if truth is None else 0,
    }
    context = f"Scene {number}."
    settled = f"{context} It was the old one." if truth else f"{context} It was the young one."
    return [
        BBQItem(example_id=2 * number, condition="ambig", context=context, label=UNKNOWN, **both),
        BBQItem(
            example_id=2 * number + 1,
            condition="disambig",
            context=settled,
            label=0 if truth else 1,
            **both,
        ),
    ]


def agreeing(items: Sequence[BBQItem], polarity: Polarity) -> Counter[bool | None]:
    """How many disambiguated items have the stereotyped answer as the right one."""
    return Counter(
        None if item.target_loc is None else item.label == item.target_loc
        for item in items
        if item.condition == "disambig" and item.polarity == polarity
    )


@pytest.mark.parametrize("limit", range(4, 36))
def test_a_model_that_is_always_right_has_no_bias_on_samples_of_the_scenes(limit: int) -> None:
    for seed in range(12):
        items = load_bbq(SCENES, None, limit, seed).items
        found = always_right(items)
        assert {one.s_dis for one in found.categories.values()} == {0.0}
        most = (min(limit, 32) // 4 + 1) // 2
        for category in found.categories:
            of_one = [item for item in items if item.category == category]
            counts = [agreeing(of_one, polarity) for polarity in POLARITIES]
            assert max(max(one.values()) for one in counts) == most


@needs_published_data
def test_a_model_that_is_always_right_has_no_bias_on_samples_of_the_published_files() -> None:
    for limit in (4, 40, 100):
        found = always_right(load_bbq(SHARED_BBQ, None, limit).items)
        assert {one.s_dis for one in found.categories.values()} == {0.0}


@given(st.data(), st.integers(4, 90), st.integers(0, 3))
def test_a_sample_is_as_balanced_as_its_category_allows(
    data: st.DataObject, limit: int, seed: int
) -> None:
    kinds_of = st.tuples(st.sampled_from(POLARITIES), st.sampled_from(TRUTHS), st.integers(1, 4))
    drawn = data.draw(st.lists(kinds_of, min_size=1, max_size=30))
    items = [item for number, kind in enumerate(drawn) for item in pair(number, *kind)]
    has = {polarity: agreeing(items, polarity) for polarity in POLARITIES}
    found = balanced_sample(items, limit, seed)
    if limit >= len(items):
        assert found == items
        return
    take = min(limit // 4, *(one.total() for one in has.values()))
    surplus, odd = 0, []
    for polarity in POLARITIES:
        one = agreeing(found, polarity)
        known = one[True] + one[False]
        assert one.total() == take
        scarcer = min(has[polarity][True], has[polarity][False])
        assert min(one[True], one[False]) == min(scarcer, known // 2)
        surplus += one[True] - one[False]
        odd.append(known % 2)
    if all(one[True] == one[False] for one in has.values()):
        assert abs(surplus) == (odd[0] != odd[1])
    assert found == [item for item in items if item in found]
    assert found == balanced_sample(items, limit, seed)


@given(st.data(), st.integers(0, 3))
def test_a_sample_of_a_balanced_category_is_balanced(data: st.DataObject, seed: int) -> None:
    """Also where some pairs have no target, and templates have one kind of truth alone."""
    scenes = data.draw(st.lists(st.tuples(st.sampled_from(TRUTHS), st.integers(1, 5)), max_size=12))
    mirrored = [
        (polarity, one, template)
        for truth, template in [(True, 1), (False, 1), *scenes]
        for polarity in POLARITIES
        for one in ((truth,) if truth is None else (truth, not truth))
    ]
    items = [item for number, kind in enumerate(mirrored) for item in pair(number, *kind)]
    limit = data.draw(st.integers(1, len(items) // 4)) * 4
    assert always_right(balanced_sample(items, limit, seed)).overall.s_dis in (0.0, None)


def test_pairs_without_a_target_are_drawn_too() -> None:
    kinds_of = [(True, 1), (False, 2), (None, 3)] * 4
    items = [
        item
        for number, (polarity, kind) in enumerate((p, k) for k in kinds_of for p in POLARITIES)
        for item in pair(number, polarity, *kind)
    ]
    drawn = {item.key for seed in range(40) for item in balanced_sample(items, 8, seed)}
    assert drawn == {item.key for item in items}
    alone = [item for number in range(12) for item in pair(number, POLARITIES[number % 2], None, 1)]
    assert len(balanced_sample(alone, 8, 0)) == 8


def test_what_a_category_lacks_is_not_made_up_for_by_fewer_items() -> None:
    kinds_of = [True, True, True, False]
    items = [
        item
        for number in range(16)
        for item in pair(number, POLARITIES[number % 2], kinds_of[number // 2 % 4], number)
    ]
    few, many = balanced_sample(items, 16, 0), balanced_sample(items, 28, 0)
    assert always_right(few).overall.s_dis == 0
    assert [agreeing(many, p)[False] for p in POLARITIES] == [2, 2] and len(many) == 28


def test_templates_of_one_truth_and_of_both_are_all_drawn_from() -> None:
    both, one = range(4), range(4, 8)
    kinds_of = [(truth, template) for template in both for truth in (True, False)]
    kinds_of += [(template % 2 == 0, template) for template in one for _ in range(2)]
    items = [
        item
        for number, (polarity, kind) in enumerate((p, k) for k in kinds_of for p in POLARITIES)
        for item in pair(number, polarity, *kind)
    ]
    for seed in range(10):
        found = balanced_sample(items, 32, seed)
        assert Counter(item.question_index for item in found) == {str(t): 4 for t in range(8)}


def shared_contexts(found: BBQSet) -> int:
    """Questions whose context another polarity asks about as well."""
    ambig = [item for item in found.items if item.condition == "ambig"]
    asked = Counter((item.category, item.question_index, item.context) for item in ambig)
    return sum(number for number in asked.values() if number > 1)


def test_both_polarities_ask_about_the_same_scenes() -> None:
    """But for one of either where a polarity has an odd number of pairs."""
    for limit in range(4, 32):
        found = load_bbq(SCENES, ["Age"], limit, 1)
        pairs_a_polarity = limit // 4
        assert shared_contexts(found) == 2 * (pairs_a_polarity - pairs_a_polarity % 2)
