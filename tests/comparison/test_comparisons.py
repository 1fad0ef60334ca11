"""Paired differences, their intervals, and Holm's adjustment."""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rldf_ray.comparison.comparisons import Comparison, compare, compare_all, holm
from rldf_ray.comparison.seeds import over_seeds

Row = dict[str, Any]


def rows(method: str, right: dict[int, list[bool]], templates: int = 40) -> list[Row]:
    """An item's answers, one a repeat; even items are ambiguous."""
    return [
        {
            "method": method,
            "repeat": repeat,
            "group": "Age",
            "item_id": f"Age/{item}",
            "template": str(item % templates),
            "condition": "disambig" if item % 2 else "ambig",
            "correct": correct,
        }
        for item, answers in right.items()
        for repeat, correct in enumerate(answers)
    ]


@pytest.mark.parametrize(
    ("given_", "adjusted"),
    [
        # R: p.adjust(c(.01, .04, .03, .005), "holm")
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),
        ([0.5, 0.9], [1.0, 1.0]),
        ([0.02], [0.02]),
        ([], []),
    ],
)
def test_holm_golden(given_: list[float], adjusted: list[float]) -> None:
    assert holm(given_) == pytest.approx(adjusted)


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_never_lowers_and_keeps_the_order(p: list[float]) -> None:
    adjusted = holm(p)
    assert all(a >= b and a <= 1 for a, b in zip(adjusted, p, strict=True))
    for i in range(len(p)):
        for j in range(len(p)):
            if p[i] < p[j]:
                assert adjusted[i] <= adjusted[j]


def test_equal_answers_are_not_separable() -> None:
    right = {i: [i % 3 == 0, i % 2 == 0] for i in range(80)}
    found = compare([*rows("a", right), *rows("b", right)], "a", "b", "all", 0)
    assert found is not None
    assert (found.value, found.low, found.high, found.p) == (0.0, 0.0, 0.0, 1.0)
    assert found.verdict == "not separable" and found.n == 80


def test_a_clear_difference_has_its_sign() -> None:
    worse = {i: [False] for i in range(80)}
    better = {i: [i % 4 != 0, True] for i in range(80)}
    both = [*rows("a", better), *rows("b", worse)]
    found, other = compare(both, "a", "b", "all", 0), compare(both, "b", "a", "all", 0)
    assert found is not None and other is not None
    assert found.value == pytest.approx(7 / 8) and found.verdict == "better"
    assert found.low > 0 and found.p < 0.001
    assert (other.value, other.verdict) == (-found.value, "worse")


@pytest.mark.parametrize(
    ("value", "p_holm", "verdict"),
    [
        (0.1, 0.01, "better"),
        (0.1, 0.05, "better, but not after Holm"),
        (-0.1, 0.2, "worse, but not after Holm"),
        (-0.1, None, "worse"),
    ],
)
def test_a_verdict_says_where_the_adjusted_p_disagrees(
    value: float, p_holm: float | None, verdict: str
) -> None:
    low, high = sorted((value / 2, value * 2))
    assert (
        Comparison(
            method="a",
            against="b",
            condition="all",
            value=value,
            low=low,
            high=high,
            p=0.01,
            n=80,
            templates=40,
            p_holm=p_holm,
        ).verdict
        == verdict
    )


def shares(method: str, of_repeat: list[float], items: int = 480) -> list[Row]:
    """Answers of which so many are right in each repeat, spread over 48 templates."""
    right = {
        i: [(i * 7 % items) < round(share * items) for share in of_repeat] for i in range(items)
    }
    return rows(method, right, 48)


def test_a_difference_that_other_seeds_may_turn_is_one_of_these_models_alone() -> None:
    default, trained = [0.5, 0.5, 0.5], [0.43, 0.52, 0.75]
    both = [*shares("default", default), *shares("rldf_self", trained)]
    found = compare(both, "rldf_self", "default", "all", 0)
    assert found is not None and found.low > 0 and found.repeats == 3
    # R: t.test(c(.43, .52, .75), c(.5, .5, .5), paired=TRUE)
    low, high = stats.t.interval(0.95, 2, np.mean(trained) - 0.5, stats.sem(trained))
    assert (found.seed_low, found.seed_high) == pytest.approx((low, high), abs=0.005)
    assert found.verdict == "better for these models, not shown over seeds"
    assert found.short_verdict == "(better)"
    after_holm = replace(found, p_holm=0.2)
    assert after_holm.verdict == (
        "better for these models, not shown over seeds, and not after Holm"
    )
    other = compare(both, "default", "rldf_self", "all", 0)
    assert other is not None
    assert other.verdict == "worse for these models, not shown over seeds"


def test_a_difference_of_all_seeds_alike_is_shown_over_them() -> None:
    both = [*shares("default", [0.4, 0.5, 0.6]), *shares("sft", [0.61, 0.7, 0.79])]
    found = compare(both, "sft", "default", "all", 0)
    assert found is not None and found.seed_low is not None and found.seed_high is not None
    # Paired: the rows go up and down together.
    assert 0.1 < found.seed_low < 0.2 < found.seed_high < 0.3
    assert found.verdict == found.short_verdict == "better"


def test_rows_that_draw_nothing_are_the_same_over_all_seeds() -> None:
    both = [*shares("default", [0.4] * 3), *shares("instructed", [0.6] * 3)]
    found = compare(both, "instructed", "default", "all", 0)
    assert found is not None and found.verdict == "better"
    assert (found.seed_low, found.seed_high) == pytest.approx((found.value, found.value))


def test_one_repeat_has_no_interval_over_seeds() -> None:
    both = [*shares("default", [0.4]), *shares("sft", [0.6])]
    found = compare(both, "sft", "default", "all", 0)
    assert found is not None
    assert (found.repeats, found.seed_low, found.seed_high) == (1, None, None)
    assert found.verdict == "better"


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 5), st.booleans(), st.booleans()), max_size=40
    )
)
def test_repeats_are_paired_on_the_items_that_both_have(
    answers: list[tuple[int, int, bool, bool]],
) -> None:
    """Whatever is missing: judges leave out answers that they gave no score."""
    judged = [
        {"method": "ba"[mine], "repeat": repeat, "item_id": f"p{item}", "score": float(right)}
        for repeat, item, right, mine in answers
    ]
    found = over_seeds(judged, "a", "b", "score")
    items = {
        name: {(row["repeat"], row["item_id"]) for row in judged if row["method"] == name}
        for name in "ab"
    }
    assert found.repeats == len({repeat for repeat, _ in items["a"] & items["b"]})
    assert (found.low is None) == (found.repeats < 2)
    turned = over_seeds(judged, "b", "a", "score")
    if found.low is not None and found.high is not None:
        assert found.low <= found.high
        assert (turned.low, turned.high) == pytest.approx((-found.high, -found.low))


def test_items_of_one_template_are_no_independent_draws() -> None:
    draw = random.Random(3)
    of_template = {t: [draw.random() < 0.6] for t in range(8)}
    right = {i: of_template[i % 8] for i in range(80)}
    none = {i: [False] for i in range(80)}
    wide = compare([*rows("a", right, 8), *rows("b", none, 8)], "a", "b", "all", 0)
    narrow = compare([*rows("a", right, 80), *rows("b", none, 80)], "a", "b", "all", 0)
    assert wide is not None and narrow is not None
    assert wide.value == narrow.value
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)


def test_a_difference_in_all_of_one_categorys_few_templates_is_not_certain() -> None:
    found = [
        {
            "method": method,
            "repeat": 0,
            "group": category,
            "item_id": f"{category}/{item}",
            "template": str(item),
            "condition": "ambig",
            "correct": method == "a" and category == "Profession",
        }
        for method in ("a", "b")
        for category in ("Age", "Beauty", "Nationality", "Profession", "Religion")
        for item in (1, 2)
    ]
    compared = compare(found, "a", "b", "all", 0)
    assert compared is not None and compared.value == pytest.approx(0.2)
    assert compared.low == 0 and compared.verdict == "not separable" and compared.p > 0.05


@pytest.mark.parametrize(
    ("templates", "p", "verdict"),
    [(1, 1.0, "too few templates"), (5, 2 / 2**5, "too few templates"), (6, 2 / 2**6, "better")],
)
def test_a_few_templates_that_agree_are_no_proof(templates: int, p: float, verdict: str) -> None:
    always, never = ({i: [right] for i in range(60)} for right in (True, False))
    both = [*rows("a", always, templates), *rows("b", never, templates)]
    found = compare(both, "a", "b", "all", 0)
    assert found is not None
    assert (found.templates, found.p, found.verdict) == (templates, p, verdict)


def test_other_items_are_refused() -> None:
    found = [*rows("a", {1: [True]}), *rows("b", {2: [True]})]
    with pytest.raises(ValueError, match="did not answer the same items"):
        compare(found, "a", "b", "all", 0)


def test_every_method_is_held_against_the_baselines_and_adjusted_by_condition() -> None:
    draw = random.Random(1)
    methods = ("default", "cot", "sft", "rlaif", "rldf_self")
    answered: list[Row] = []
    for method in methods:
        answered += rows(method, {i: [draw.random() < 0.5] for i in range(80)})
    found = compare_all(answered, methods, 0)
    pairs = [(c.method, c.against) for c in found if c.condition == "ambig"]
    assert pairs == [
        ("cot", "default"),
        ("sft", "default"),
        ("rlaif", "default"),
        ("rldf_self", "default"),
        ("cot", "sft"),
        ("rlaif", "sft"),
        ("rldf_self", "sft"),
        ("cot", "rlaif"),
        ("rldf_self", "rlaif"),
    ]
    assert {c.condition: c.n for c in found} == {"all": 80, "ambig": 40, "disambig": 40}
    for condition in ("all", "ambig", "disambig"):
        family = [c for c in found if c.condition == condition]
        assert [c.p_holm for c in family] == pytest.approx(holm([c.p for c in family]))
    assert compare_all(answered, methods, 0) == found


def scores(method: str, of: dict[str, float], measure: str) -> list[Row]:
    return [
        {
            "method": method,
            "repeat": 0,
            "group": "age",
            "item_id": prompt,
            "template": prompt,
            "condition": measure,
            "score": score,
        }
        for prompt, score in of.items()
    ]


@pytest.mark.parametrize(("measure", "verdict"), [("BS", "worse"), ("CE", "better")])
def test_more_of_a_bias_score_is_worse(measure: str, verdict: str) -> None:
    low, high = ({f"p{i}": base + i / 100 for i in range(8)} for base in (0.2, 0.6))
    judged = [*scores("default", low, measure), *scores("sft", high, measure)]
    (found,) = compare_all(judged, ["default", "sft"], 0, ("BS", "CE", "LS"), figure="score")
    assert found.value == pytest.approx(0.4) and found.n == found.templates == 8
    assert (found.verdict, found.short_verdict) == (verdict, verdict)


def test_the_last_digit_is_the_same_in_every_process() -> None:
    """The order of a set of names is another in each, and with it the rounding of a sum."""
    program = """
from rldf_ray.comparison.comparisons import compare
rows = [
    {"method": m, "repeat": r, "group": "Age", "item_id": f"Age/{i}", "template": i % 7,
     "condition": "ambig", "correct": (i * 7 + r * 3 + (m == "sft")) % 5 < 2}
    for m in ("default", "sft") for i in range(60) for r in range(3)
]
print(repr(compare(rows, "sft", "default", "all", 0)))
"""
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in range(4)
    }
    assert len(told) == 1


def drawn_differences(mean_in_errors: float) -> tuple[list[Row], float]:
    """Scores whose difference is so many standard errors from 0, and that standard error."""
    draw = np.random.default_rng(8)
    noise = draw.normal(size=400)
    noise = (noise - noise.mean()) / noise.std()
    error = 1 / math.sqrt(400)
    theirs = {f"p{i}": 0.0 for i in range(400)}
    mine = {f"p{i}": float(value + mean_in_errors * error) for i, value in enumerate(noise)}
    return [*scores("default", theirs, "CE"), *scores("sft", mine, "CE")], error


@pytest.mark.parametrize("errors", [1.5, 2.2])
def test_p_is_two_sided_and_the_interval_is_of_95_percent(errors: float) -> None:
    judged, error = drawn_differences(errors)
    comparison = compare(judged, "sft", "default", "CE", 0, figure="score")
    assert comparison is not None
    assert (comparison.high - comparison.low) / 2 == pytest.approx(1.96 * error, rel=0.05)
    assert comparison.p == pytest.approx(2 * stats.norm.sf(errors), rel=0.2)
