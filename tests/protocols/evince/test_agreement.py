"""Agreement of labels with a person: by hand, and with intervals that resample texts."""

import math

import numpy as np
import pytest

from rldf_ray.protocols.evince.agreement import agreement, label_information, weighted_kappa
from rldf_ray.protocols.evince.scale import load_scale

FIVE = load_scale("toward")


def test_information_of_a_corpus_needs_fifty_items():
    names = FIVE.names
    pairs = [(names[i % 5], names[i % 5]) for i in range(50)]
    texts = [f"t{i}" for i in range(50)]
    assert label_information(pairs[:49], texts[:49], FIVE, 1) is None
    found = label_information(pairs, texts, FIVE, 1)
    assert found is not None
    assert found.value == pytest.approx(1)
    crossed = [(names[i % 5], names[(i // 5) % 5]) for i in range(50)]
    apart = label_information(crossed, texts, FIVE, 1)
    assert apart is not None
    assert apart.value == pytest.approx(0, abs=1e-9)


def test_the_interval_of_a_corpus_resamples_texts():
    names = FIVE.names
    pairs = [(names[i % 5], names[i % 5 if i % 3 else 0]) for i in range(120)]
    alone = label_information(pairs, [f"t{i}" for i in range(120)], FIVE, 3)
    grouped = label_information(pairs, [f"t{i // 12}" for i in range(120)], FIVE, 3)
    assert alone is not None and grouped is not None
    assert alone.value == grouped.value
    assert (alone.low, alone.high) != (grouped.low, grouped.high)


def test_weighted_kappa_by_hand():
    # Two labels one step apart: the plain kappa. 20 and 15 agree of 50.
    table = np.zeros((5, 5))
    table[0, 0], table[0, 1], table[1, 0], table[1, 1] = 20, 5, 10, 15
    # p_o .7, p_e .5
    assert weighted_kappa(table, FIVE) == pytest.approx(0.4)
    # Far apart counts by the square of the steps.
    far = np.zeros((5, 5))
    far[0, 0], far[4, 4], far[0, 4] = 10, 10, 5
    # 16 x .2 seen, 16 x (.6 x .6 + .4 x .4) by chance
    assert weighted_kappa(far, FIVE) == pytest.approx(1 - 0.2 / 0.52)
    assert math.isnan(weighted_kappa(np.diag([5.0, 0, 0, 0, 0]), FIVE))


def test_agreement_in_steps_and_their_direction():
    pairs = [("negative", "neutral"), ("positive", "positive"), ("neutral", "positive")]
    found = agreement(pairs, ["t1", "t2", "t3"], FIVE, 1)
    assert found is not None
    assert found.n == 3
    assert found.apart.value == pytest.approx(4 / 3)
    assert found.signed.value == pytest.approx(-4 / 3)
    assert found.same.value == pytest.approx(1 / 3)
    assert agreement([], [], FIVE, 1) is None


def test_items_of_one_text_stand_and_fall_together():
    names = FIVE.names
    pairs = [(names[i % 5], names[(i + (i % 4 == 0)) % 5]) for i in range(80)]
    alone = agreement(pairs, [f"t{i}" for i in range(80)], FIVE, 2)
    doubled = agreement([*pairs, *pairs], [f"t{i % 80}" for i in range(160)], FIVE, 2)
    assert alone is not None and doubled is not None
    assert alone.kappa is not None and doubled.kappa is not None
    assert alone.kappa.value == pytest.approx(doubled.kappa.value)
    # Twice as many rows, no more texts: no narrower.
    assert (doubled.kappa.low, doubled.kappa.high) == pytest.approx(
        (alone.kappa.low, alone.kappa.high)
    )
