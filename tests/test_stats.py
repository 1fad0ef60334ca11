"""Estimates and their intervals: known values, seeded, and none where none can be had."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rldf_ray import stats
from rldf_ray.stats import (
    Estimate,
    auc,
    auc_difference,
    auc_estimate,
    clustered_estimate,
    interval,
    mean_estimate,
    paired_difference,
    resampled_means,
    share_estimate,
)


@pytest.fixture(autouse=True)
def _fewer_resamples(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """scikit-learn takes about a millisecond for each AUC."""
    if "auc" in request.node.name or "scores" in request.node.name or "seeds" in request.node.name:
        monkeypatch.setattr(stats, "RESAMPLES", 60)


def test_a_mean_lies_in_its_interval_which_is_near_the_normal_one() -> None:
    data = np.random.default_rng(3).normal(5.0, 2.0, size=400).tolist()
    found = mean_estimate(data, seed=0)
    assert found is not None and found.low is not None and found.high is not None
    half = 1.96 * float(np.std(data)) / math.sqrt(400)
    assert found.value == pytest.approx(float(np.mean(data)))
    assert found.low == pytest.approx(found.value - half, abs=0.05)
    assert found.high == pytest.approx(found.value + half, abs=0.05)
    assert found.n == 400


def test_intervals_of_95_percent_cover_the_truth_about_that_often() -> None:
    chance = np.random.default_rng(11)
    covered = 0
    for seed in range(100):
        found = mean_estimate(chance.normal(0.0, 1.0, size=40).tolist(), seed)
        assert found is not None and found.low is not None and found.high is not None
        covered += found.low <= 0.0 <= found.high
    assert 86 <= covered <= 99


@pytest.mark.parametrize("values", [[4.0], [4.0, 4.0, 4.0]])
def test_a_mean_without_spread_has_no_interval(values: list[float]) -> None:
    assert mean_estimate(values, seed=0) == Estimate(4.0, None, None, len(values))


def test_nothing_has_no_estimate() -> None:
    assert mean_estimate([], seed=0) is None
    assert share_estimate(0, 0) is None
    assert auc_estimate([], [], seed=0) is None
    assert paired_difference([], [], seed=0) is None


def test_equal_seeds_give_equal_intervals_and_others_others() -> None:
    data = np.random.default_rng(3).normal(size=30).tolist()
    labels, scores = [0, 1] * 15, data
    assert mean_estimate(data, 1) == mean_estimate(data, 1) != mean_estimate(data, 2)
    assert auc_estimate(labels, scores, 1) == auc_estimate(labels, scores, 1)
    assert auc_estimate(labels, scores, 1) != auc_estimate(labels, scores, 2)


# ---- shares


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [
        (8, 10, 0.4902, 0.9433),
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (50, 100, 0.4038, 0.5962),
    ],
)
def test_a_share_has_its_wilson_interval(successes: int, n: int, low: float, high: float) -> None:
    found = share_estimate(successes, n)
    assert found is not None
    assert (found.value, found.n) == (successes / n, n)
    assert found.low == pytest.approx(low, abs=2e-4)
    assert found.high == pytest.approx(high, abs=2e-4)


# ---- AUC


@pytest.mark.parametrize(
    ("labels", "scores", "auc"),
    [
        ([0, 0, 1, 1], [1, 2, 3, 4], 1.0),
        ([1, 1, 0, 0], [1, 2, 3, 4], 0.0),
        ([0, 1, 0, 1], [5, 5, 5, 5], 0.5),
        ([0, 0, 1, 1], [1, 3, 2, 4], 0.75),
        ([0, 1, 1], [2, 2, 3], 0.75),
    ],
)
def test_auc_is_the_chance_that_a_biased_statement_scores_above_a_fair_one(
    labels: list[int], scores: list[float], auc: float
) -> None:
    found = auc_estimate(labels, scores, seed=0)
    assert found is not None and found.value == pytest.approx(auc) and found.n == len(labels)


@pytest.mark.parametrize("labels", [[1], [0, 0, 0], [1, 1, 1]])
def test_auc_needs_both_labels(labels: list[int]) -> None:
    assert auc_estimate(labels, [float(i) for i in range(len(labels))], seed=0) is None


@settings(
    deadline=None, max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 5)), min_size=4, max_size=10))
def test_auc_counts_pairs_and_lies_in_its_interval(rows: list[tuple[int, int]]) -> None:
    biased = [score for label, score in rows if label]
    fair = [score for label, score in rows if not label]
    found = auc_estimate([label for label, _ in rows], [score for _, score in rows], seed=0)
    if not biased or not fair:
        assert found is None
        return
    wins = sum((b > f) + (b == f) / 2 for b in biased for f in fair)
    assert found is not None and found.low is not None and found.high is not None
    assert found.value == pytest.approx(wins / (len(biased) * len(fair)))
    assert 0 <= found.low <= found.value + 1e-9
    assert found.value - 1e-9 <= found.high <= 1


def test_scores_of_no_use_have_an_interval_that_holds_one_half() -> None:
    chance = np.random.default_rng(5)
    found = auc_estimate([0, 1] * 40, chance.normal(size=80).tolist(), seed=0)
    assert found is not None and found.low is not None and found.high is not None
    assert found.low < 0.5 < found.high
    assert found.high - found.low < 0.35


# ---- paired differences


def test_a_paired_difference_is_after_less_before_over_the_same_items() -> None:
    before, after = [0, 0, 1, 1, 0, 1], [1, 1, 1, 1, 0, 0]
    found = paired_difference(before, after, seed=0)
    assert found is not None and found.low is not None and found.high is not None
    assert found.value == pytest.approx(1 / 6) and found.n == 6
    assert found.low < found.value < found.high


def test_items_that_all_change_alike_have_no_interval() -> None:
    assert paired_difference([0.0, 1.0], [1.0, 2.0], seed=0) == Estimate(1.0, None, None, 2)


def test_pairing_makes_the_interval_narrower_where_items_differ_more_than_models() -> None:
    chance = np.random.default_rng(2)
    before = chance.normal(0, 10, size=60)
    after = before + chance.normal(1, 0.1, size=60)
    found = paired_difference(before.tolist(), after.tolist(), seed=0)
    assert found is not None and found.low is not None and found.high is not None
    assert found.high - found.low < 0.1


def test_a_paired_difference_needs_the_same_items() -> None:
    with pytest.raises(ValueError, match="zip"):
        paired_difference([1.0, 0.0], [1.0], seed=0)


def test_values_of_a_cluster_are_one_draw() -> None:
    """Ten answers to each of eight prompts say no more than one would, if all are alike."""
    values = np.random.default_rng(1).normal(5.0, 2.0, size=8).tolist()
    once = clustered_estimate(values, range(8), 0)
    apart = clustered_estimate([v for v in values for _ in range(10)], range(80), 0)
    alike = clustered_estimate(
        [v for v in values for _ in range(10)], [c for c in range(8) for _ in range(10)], 0
    )
    assert once and apart and alike
    assert (alike.low, alike.high) == pytest.approx((once.low, once.high)) and alike.n == 80
    assert apart.low and apart.high and alike.low and alike.high
    assert apart.high - apart.low < 0.5 * (alike.high - alike.low)


def test_one_cluster_or_no_spread_has_no_interval() -> None:
    assert clustered_estimate([1.0, 2.0], ["a", "a"], 0) == Estimate(1.5, None, None, 2)
    assert clustered_estimate([2.0, 2.0], ["a", "b"], 0) == Estimate(2.0, None, None, 2)
    assert clustered_estimate([], [], 0) is None


def test_thirds_that_cancel_make_no_difference() -> None:
    """Shares of three repeats are thirds; what is 0 must not fall on either side of it."""
    draw = np.random.default_rng(0)
    thirds = draw.integers(-3, 4, size=60)
    means = resampled_means((thirds / 3).tolist(), range(60), 0, 2000)
    whole = resampled_means(thirds.astype(float).tolist(), range(60), 0, 2000)
    assert (whole == 0).any() and ((means == 0) == (whole == 0)).all()


def normal_half_width(values: Sequence[float]) -> float:
    """Half of a 95 % interval of the mean, which a bootstrap of many draws comes near."""
    return 1.96 * float(np.std(values)) / math.sqrt(len(values))


def test_an_interval_of_clusters_has_the_normal_width() -> None:
    """90 % is 16 % narrower; half as many clusters drawn makes it 41 % wider."""
    values = np.random.default_rng(4).normal(5.0, 2.0, size=400).tolist()
    estimate = clustered_estimate(values, range(400), 0)
    assert estimate and estimate.low is not None and estimate.high is not None
    half = normal_half_width(values)
    assert (estimate.high - estimate.low) / 2 == pytest.approx(half, rel=0.08)


def test_every_resample_draws_as_many_clusters_as_there_are() -> None:
    means = resampled_means([0.0] * 99 + [1.0], range(100), 0, 4000)
    assert float(means.std()) == pytest.approx(math.sqrt(0.01 * 0.99 / 100), rel=0.1)
    drawn = (means * 100).round(9)
    assert (drawn == drawn.round()).all()


@pytest.mark.parametrize("difference", [False, True])
def test_an_interval_of_auc_has_the_width_that_hanley_and_mcneil_give(
    difference: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stats, "RESAMPLES", 1000)
    draw = np.random.default_rng(6)
    labels = [0, 1] * 200
    scores = (draw.normal(size=400) + np.array(labels)).tolist()
    if difference:
        estimate = auc_difference(labels, scores, [0.0] * 400, 0)
    else:
        estimate = auc_estimate(labels, scores, 0)
    assert estimate and estimate.low is not None and estimate.high is not None
    area = auc(labels, scores)
    assert area is not None
    q1, q2 = area / (2 - area), 2 * area**2 / (1 + area)
    variance = (area * (1 - area) + 199 * (q1 - area**2) + 199 * (q2 - area**2)) / 200**2
    half = 1.96 * math.sqrt(variance)
    assert (estimate.high - estimate.low) / 2 == pytest.approx(half, rel=0.1)


def test_an_interval_leaves_out_two_and_a_half_percent_on_either_side() -> None:
    assert interval(np.arange(1001.0)).tolist() == [25.0, 975.0]
    assert interval(np.stack([np.arange(1001.0), np.arange(1001.0)], axis=1)).shape == (2, 2)
