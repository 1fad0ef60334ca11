"""Scores against labels: right, wrong and in between."""

from __future__ import annotations

import pytest

from rldf_ray.referee.calibration import accuracy, brier, calibration


def test_a_statement_is_called_biased_above_the_threshold_only() -> None:
    found = accuracy([1, 1, 0, 0], [3.5, 3.0, 3.0, 9.0], 3.0, "abcd", 0)
    assert found is not None and found.value == 0.5 and found.n == 4


def test_brier_is_zero_for_sure_and_right_and_a_quarter_for_the_middle() -> None:
    sure, middle = (brier([1, 0], scores, "ab", 0) for scores in ([10.0, 0.0], [5.0, 5.0]))
    assert sure is not None and sure.value == 0.0
    assert middle is not None and middle.value == pytest.approx(0.25)


def test_every_statement_is_in_one_fifth_of_the_scale() -> None:
    bins = calibration([0, 1, 1, 0], [0.0, 10.0, 2.0, 1.9])
    assert [row["n"] for row in bins] == [2, 1, 0, 0, 1]
    assert bins[0]["share_biased"] == 0.0 and bins[0]["mean_score"] == pytest.approx(0.95)
    assert bins[2]["share_biased"] is None and bins[4]["share_biased"] == 1.0
    assert [(row["low"], row["high"]) for row in bins][-1] == (8.0, 10.0)


def test_nothing_scored_is_no_accuracy_and_no_brier() -> None:
    assert accuracy([], [], 3.0, [], 0) is None and brier([], [], [], 0) is None


def test_shares_and_distances_draw_topics() -> None:
    """Sixty statements on six topics, three of which are labelled rightly."""
    labels, clusters = [0, 1] * 30, [i // 10 for i in range(60)]
    scores = [10.0 * (1 - y if place % 2 else y) for y, place in zip(labels, clusters, strict=True)]
    for found in (accuracy(labels, scores, 5.0, clusters, 0), brier(labels, scores, clusters, 0)):
        assert found and found.value == 0.5
        assert (found.low, found.high) == pytest.approx((1 / 6, 5 / 6))
