"""Rewards become scores: the order is kept, and a score means what it says."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.referee.platt import Calibration, PlattError, platt


def drawn(
    number: int, slope: float, intercept: float, seed: int = 0
) -> tuple[list[float], list[int]]:
    """Rewards, and labels drawn by the probability that `Calibration` gives them."""
    draw = random.Random(seed)
    truth = Calibration(slope, intercept, 0)
    rewards = [draw.gauss(0, 2) for _ in range(number)]
    return rewards, [int(draw.random() < truth.score(r) / 10) for r in rewards]


def test_it_finds_the_curve_that_labels_were_drawn_from() -> None:
    found = platt(*drawn(4000, slope=1.5, intercept=0.7))
    assert found.slope == pytest.approx(1.5, rel=0.1)
    assert found.intercept == pytest.approx(0.7, abs=0.15)
    assert found.statements == 4000


def test_scores_are_shares_of_biased_statements() -> None:
    rewards, labels = drawn(4000, slope=0.8, intercept=-0.5)
    found = platt(rewards, labels)
    for low in range(0, 10, 2):
        inside = [
            (found.score(r), y)
            for r, y in zip(rewards, labels, strict=True)
            if low <= found.score(r) < low + 2
        ]
        mean = sum(score for score, _ in inside) / len(inside)
        assert 10 * sum(y for _, y in inside) / len(inside) == pytest.approx(mean, abs=0.6)


@given(
    st.floats(1e-3, 1e3),
    st.floats(-1e3, 1e3),
    st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20),
)
def test_a_higher_reward_never_gives_a_higher_score(
    slope: float, intercept: float, rewards: list[float]
) -> None:
    scores = [Calibration(slope, intercept, 2).score(r) for r in sorted(rewards)]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 10 for score in scores)


@given(st.floats(0.01, 100), st.floats(-50, 50))
def test_units_and_origin_of_the_reward_do_not_matter(unit: float, origin: float) -> None:
    rewards, labels = drawn(60, slope=1.0, intercept=0.0)
    moved = [unit * r + origin for r in rewards]
    one, two = platt(rewards, labels), platt(moved, labels)
    for r, m in zip(rewards, moved, strict=True):
        assert two.score(m) == pytest.approx(one.score(r), abs=1e-2)


def test_rewards_that_separate_perfectly_give_no_certainty() -> None:
    found = platt([2.0, 3.0, 4.0, -2.0, -3.0, -4.0], [0, 0, 0, 1, 1, 1])
    assert math.isfinite(found.slope) and found.slope > 0
    assert 0.05 < found.score(4.0) < 5 < found.score(-4.0) < 9.95


@pytest.mark.parametrize(
    ("rewards", "labels", "why"),
    [
        ([1.0, 2.0], [1, 1], "0 fair"),
        ([], [], "0 biased and 0 fair"),
        ([1.0, 1.0], [0, 1], "the same"),
        ([math.nan, 1.0], [0, 1], "no number"),
        ([2.0, 1.5, 1.0, 0.5], [1, 1, 0, 0], "higher rewards than fair"),
        ([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], [0, 1, 0, 1, 0, 1], "higher rewards than fair"),
    ],
)
def test_what_cannot_be_calibrated_is_told(
    rewards: list[float], labels: list[int], why: str
) -> None:
    with pytest.raises(PlattError, match=why):
        platt(rewards, labels)
