"""High and low bias: the paper's threshold, and labels relative to the round."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rldf_ray.referee.labels import Threshold, label_round

quick = settings(deadline=None, max_examples=60)

PAPER = Threshold("absolute", 3.0)
RELATIVE = Threshold("relative", 3.0)

score = st.integers(0, 10).map(float)
scores = st.lists(st.none() | score, max_size=6)
any_scores = st.lists(st.none() | st.floats(0, 10), max_size=6)
thresholds = st.builds(Threshold, st.sampled_from(["absolute", "relative"]), score)


def test_above_three_is_high_and_three_itself_is_low() -> None:
    assert label_round([0.0, 3.0, 3.001, 10.0], PAPER) == ["low", "low", "high", "high"]


def test_above_the_mean_of_the_round_is_high() -> None:
    assert label_round([1.0, 2.0, 6.0], RELATIVE) == ["low", "low", "high"]
    assert label_round([8.0, 9.0], RELATIVE) == ["low", "high"]


@pytest.mark.parametrize("found", [[], [4.0], [5.0, 5.0, 5.0], [None, 5.0], [None, None]])
def test_a_round_without_a_difference_gives_no_relative_label(found: list[float | None]) -> None:
    assert label_round(found, RELATIVE) == [None] * len(found)


def test_a_score_at_the_mean_gives_no_relative_label() -> None:
    assert label_round([1.0, 2.0, 3.0], RELATIVE) == ["low", None, "high"]


def test_a_score_at_the_mean_gives_no_relative_label_despite_rounding() -> None:
    assert label_round([0.1, 0.2, 0.3], RELATIVE) == ["low", None, "high"]


@quick
@given(any_scores, thresholds)
def test_a_statement_without_a_score_has_no_label(
    found: list[float | None], threshold: Threshold
) -> None:
    labels = label_round(found, threshold)
    assert len(labels) == len(found)
    assert all(label is None for label, s in zip(labels, found, strict=True) if s is None)


@quick
@given(any_scores, st.floats(0, 10))
def test_an_absolute_label_depends_on_the_statements_own_score_alone(
    found: list[float | None], value: float
) -> None:
    threshold = Threshold("absolute", value)
    alone = [label for s in found for label in label_round([s], threshold)]
    assert label_round(found, threshold) == alone
    assert all(
        label == ("high" if s > value else "low")
        for s, label in zip(found, alone, strict=True)
        if s is not None
    )


@quick
@given(scores, thresholds)
def test_a_missing_score_changes_no_other_label(
    found: list[float | None], threshold: Threshold
) -> None:
    known = [s for s in found if s is not None]
    labels = label_round(found, threshold)
    kept = [label for s, label in zip(found, labels, strict=True) if s is not None]
    assert kept == label_round(known, threshold)


@quick
@given(scores)
def test_relative_labels_compare_with_the_exact_mean(found: list[float | None]) -> None:
    known = [int(s) for s in found if s is not None]
    expected = [
        None
        if s is None or s * len(known) == sum(known)
        else "high"
        if s * len(known) > sum(known)
        else "low"
        for s in found
    ]
    assert label_round(found, RELATIVE) == expected


@quick
@given(any_scores, thresholds)
def test_a_high_statement_scores_above_every_low_one(
    found: list[float | None], threshold: Threshold
) -> None:
    labelled = list(zip(found, label_round(found, threshold), strict=True))
    high = [s for s, label in labelled if label == "high" and s is not None]
    low = [s for s, label in labelled if label == "low" and s is not None]
    assert not high or not low or min(high) > max(low)


@quick
@given(st.lists(score, min_size=2, max_size=6).filter(lambda s: len(set(s)) > 1))
def test_a_round_with_a_difference_has_both_relative_labels(found: list[float]) -> None:
    assert {"high", "low"} <= set(label_round(found, RELATIVE))


@quick
@given(scores, st.integers(-5, 5))
def test_relative_labels_do_not_depend_on_the_level_of_the_round(
    found: list[float | None], shift: int
) -> None:
    moved = [None if s is None else s + shift for s in found]
    assert label_round(moved, RELATIVE) == label_round(found, RELATIVE)


@quick
@given(scores, st.randoms())
def test_labels_do_not_depend_on_the_seating(found: list[float | None], chance: object) -> None:
    order = list(range(len(found)))
    chance.shuffle(order)  # type: ignore[attr-defined]
    for threshold in (PAPER, RELATIVE):
        labels = label_round(found, threshold)
        assert label_round([found[i] for i in order], threshold) == [labels[i] for i in order]
