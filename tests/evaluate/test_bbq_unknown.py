"""Readiness to say "unknown" is told apart from knowing when."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.evaluate.bbq_data import load_bbq
from rldf_ray.evaluate.bbq_items import BBQItem
from rldf_ray.evaluate.bbq_unknown import unknown_auc
from rldf_ray.evaluate.multiple_choice import SCENES

ITEMS = load_bbq(SCENES, None, 8).items


def scores_of(item: BBQItem, margin: float) -> tuple[float, ...]:
    """The margin of "unknown" over the likelier name, the other one nat below that."""
    names = iter((-5.0, -6.0))
    return tuple(-5.0 + margin if i == item.unknown else next(names) for i in range(3))


@given(st.floats(-20, 20))
def test_a_model_that_says_unknown_more_readily_has_the_same_auc(shift: float) -> None:
    generator = np.random.default_rng(0)
    margins = [(i.condition == "ambig") + generator.normal() for i in ITEMS]
    found = [
        unknown_auc(
            ITEMS, {i.key: scores_of(i, m + by) for i, m in zip(ITEMS, margins, strict=True)}
        )
        for by in (0.0, shift)
    ]
    assert found[0] is not None and 0.6 < found[0] < 0.95
    assert found[1] == pytest.approx(found[0], abs=0.02)


def test_a_model_that_reads_has_one_and_one_for_which_all_is_alike_a_half() -> None:
    reads = {i.key: scores_of(i, 1.0 if i.condition == "ambig" else -1.0) for i in ITEMS}
    assert unknown_auc(ITEMS, reads) == 1.0
    assert unknown_auc(ITEMS, {i.key: scores_of(i, 3.0) for i in ITEMS}) == 0.5


def test_there_is_none_without_scores_or_with_one_condition() -> None:
    scores: dict[tuple[str, int], tuple[float, ...] | None]
    scores = {i.key: scores_of(i, 0.0) for i in ITEMS}
    ambiguous = [i for i in ITEMS if i.condition == "ambig"]
    assert unknown_auc(ambiguous, scores) is None
    assert unknown_auc(ITEMS, {**scores, ITEMS[0].key: None}) is None
