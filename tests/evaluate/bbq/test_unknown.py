"""The abstention threshold is kept apart from knowing when to abstain."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.evaluate.bbq.run_models import SCENES
from rldf_ray.evaluate.bbq.unknown import Scores, abstention_auroc, accuracy_curve_area
from rldf_ray.sets.bbq.data import load_bbq
from rldf_ray.sets.bbq.items import BBQItem, Key

ITEMS = load_bbq(SCENES, None, 8).items


AMBIGUOUS, TOLD = ([i for i in ITEMS if i.condition == name] for name in ("ambig", "disambig"))


def random_scores() -> dict[Key, tuple[float, ...]]:
    generator = np.random.default_rng(0)
    found = {i.key: generator.normal(size=3) for i in ITEMS}
    for item in ITEMS:
        found[item.key][item.label] += 0.7
    return {key: tuple(scores.tolist()) for key, scores in found.items()}


RANDOM = random_scores()


def accuracy(items: Sequence[BBQItem], scores: Scores, threshold: float) -> float:
    """Of a model with so many nats more for "unknown"."""
    right = 0
    for item in items:
        found = list(scores[item.key] or ())
        found[item.unknown] += threshold
        right += found[item.label] == max(found)
    return right / len(items)


def scores_of(item: BBQItem, margin: float) -> tuple[float, ...]:
    """The margin of "unknown" over the likelier name, the other one nat below that."""
    names = iter((-5.0, -6.0))
    return tuple(-5.0 + margin if i == item.unknown else next(names) for i in range(3))


@given(st.floats(-20, 20))
def test_a_model_that_says_unknown_more_readily_has_the_same_auc(shift: float) -> None:
    generator = np.random.default_rng(0)
    margins = [(i.condition == "ambig") + generator.normal() for i in ITEMS]
    found = [
        abstention_auroc(
            ITEMS, {i.key: scores_of(i, m + by) for i, m in zip(ITEMS, margins, strict=True)}
        )
        for by in (0.0, shift)
    ]
    assert found[0] is not None and 0.6 < found[0] < 0.95
    assert found[1] == pytest.approx(found[0], abs=0.02)


def test_a_model_that_reads_has_one_and_one_for_which_all_is_alike_a_half() -> None:
    reads = {i.key: scores_of(i, 1.0 if i.condition == "ambig" else -1.0) for i in ITEMS}
    assert abstention_auroc(ITEMS, reads) == 1.0
    assert abstention_auroc(ITEMS, {i.key: scores_of(i, 3.0) for i in ITEMS}) == 0.5


def test_both_right_is_the_area_under_the_two_accuracies() -> None:
    threshold = np.linspace(-12, 12, 4001)
    ambiguous = [accuracy(AMBIGUOUS, RANDOM, by) for by in threshold]
    told = [accuracy(TOLD, RANDOM, by) for by in threshold]
    assert accuracy_curve_area(ITEMS, RANDOM) == pytest.approx(
        -np.trapezoid(ambiguous, told), abs=1e-3
    )


@given(st.floats(-20, 20))
def test_both_right_is_the_same_at_any_threshold(shift: float) -> None:
    shifted = {
        i.key: tuple(s + shift * (o == i.unknown) for o, s in enumerate(RANDOM[i.key]))
        for i in ITEMS
    }
    assert accuracy_curve_area(ITEMS, shifted) == pytest.approx(
        accuracy_curve_area(ITEMS, RANDOM), abs=1e-9
    )


def test_a_model_that_reads_has_both_right_and_one_that_does_not_a_quarter() -> None:
    reads = {i.key: tuple(float(o == i.label) for o in range(3)) for i in ITEMS}
    assert accuracy_curve_area(ITEMS, reads) == 1.0
    assert accuracy_curve_area(ITEMS, {i.key: (0.0, 0.0, 0.0) for i in ITEMS}) == 0.25
    wrong = {i.key: tuple(-float(o == i.label) for o in range(3)) for i in TOLD}
    assert accuracy_curve_area(ITEMS, reads | wrong) == 0.0


def test_there_is_none_without_scores_or_with_one_condition() -> None:
    scores: dict[tuple[str, int], tuple[float, ...] | None]
    scores = {i.key: scores_of(i, 0.0) for i in ITEMS}
    for measure in (abstention_auroc, accuracy_curve_area):
        assert measure(AMBIGUOUS, scores) is None
        assert measure(ITEMS, {**scores, ITEMS[0].key: None}) is None
