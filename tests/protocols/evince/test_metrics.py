"""Metrics over a label scale: the paper's Table 9, and what always holds."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rldf_ray.protocols.evince import metrics as m
from rldf_ray.protocols.evince.scale import Label, LabelScale, load_scale
from tests.protocols.evince.examples import GOLDEN, distributions

FIVE = load_scale("toward")

NMI = {"1": 0.502, "2": 0.606, "3": 0.900, "end": 1.000}
NCE = {"1": 0.930, "2": 0.973, "3": 0.876, "end": 0.889}


def scale_of(n: int, nominal: bool = False) -> LabelScale:
    labels = tuple(Label(name=f"l{i}", meaning="m") for i in range(n))
    return LabelScale("s", "t", "q", labels, nominal)


@pytest.mark.parametrize("name", GOLDEN)
def test_the_paper_s_worked_example_to_the_digit(name):
    a, b, wd, kl, jsd, h_a, h_b, ce = GOLDEN[name]
    found = m.metrics([x / 100 for x in a], [x / 100 for x in b], FIVE)
    assert found.wd == pytest.approx(wd, abs=1e-9)
    assert found.kl == pytest.approx(kl, abs=5e-7)
    assert found.jsd == pytest.approx(jsd, abs=5e-7)
    assert (round(found.h_a, 3), round(found.h_b, 3), round(found.ce, 3)) == (h_a, h_b, ce)
    assert round(found.nmi, 3) == NMI[name]
    assert round(found.nce, 3) == NCE[name]
    assert not found.smoothed


@given(distributions(), distributions())
def test_bounds_and_symmetry(a, b):
    found, other = m.metrics(a, b, FIVE), m.metrics(b, a, FIVE)
    assert 0 <= found.wd <= 4 and 0 <= found.wd_share <= 1
    assert 0 <= found.jsd <= 1
    assert 0 <= found.kl < math.inf
    assert 0 <= found.h_a <= math.log2(5) + 1e-9
    assert 0 <= found.nmi <= 1
    assert found.ce >= found.h_a - 1e-2 if found.smoothed else found.ce >= found.h_a - 1e-9
    for name in ("wd", "jsd", "nmi"):
        assert getattr(found, name) == pytest.approx(getattr(other, name), abs=1e-9)


@given(distributions())
def test_equal_distributions_do_not_differ(a):
    found = m.metrics(a, a, FIVE)
    assert (found.wd, found.kl, found.jsd) == (0, 0, 0)
    assert found.ce == pytest.approx(found.h_a)
    assert found.nmi == pytest.approx(1)


@given(distributions(), distributions())
def test_wasserstein_is_scipy_s(a, b):
    places = range(5)
    assert m.wasserstein(a, b, FIVE) == pytest.approx(
        stats.wasserstein_distance(places, places, a, b), abs=1e-9
    )


@given(distributions(3), distributions(3))
def test_wasserstein_goes_by_the_scale_s_own_positions(a, b):
    labels = [Label(name=n, meaning="m", position=x) for n, x in (("a", -1), ("b", 0), ("c", 5))]
    scale = LabelScale("s", "t", "q", tuple(labels))
    expected = stats.wasserstein_distance([-1, 0, 5], [-1, 0, 5], a, b)
    assert m.wasserstein(a, b, scale) == pytest.approx(expected, abs=1e-9)


@given(distributions(), distributions(), st.permutations(range(5)))
def test_what_has_no_order_does_not_depend_on_the_labels_order(a, b, order):
    pa, pb = [a[i] for i in order], [b[i] for i in order]
    nominal = scale_of(5, nominal=True)
    one, other = m.metrics(a, b, nominal), m.metrics(pa, pb, nominal)
    for name in ("wd", "kl", "jsd", "ce", "h_a", "h_b", "nmi"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), abs=1e-9)


def test_distributions_are_aligned_by_name_before_anything_is_computed():
    by_name = {"positive": 0.5, "negative": 0.25, "neutral": 0.25}
    assert FIVE.aligned(by_name) == (0.25, 0, 0.25, 0, 0.5)
    with pytest.raises(KeyError, match="sideways"):
        FIVE.aligned({"sideways": 1.0})


def test_what_one_holds_impossible_is_smoothed_and_marked():
    found = m.metrics((0.5, 0.5, 0, 0, 0), (0, 0, 0.5, 0.5, 0), FIVE)
    assert found.smoothed
    p = (1 - 1e-3) * 0.5 + 1e-3 / 5
    q = 1e-3 / 5
    assert found.kl == pytest.approx(2 * p * math.log2(p / q) + 2 * q * math.log2(q / p))
    assert found.nmi == 0
    # JSD needs none.
    assert found.jsd == 1


def test_entropy_of_certainty_is_nothing():
    assert m.entropy((0, 1, 0)) == 0
    assert m.entropy((0.25,) * 4) == 2


def test_one_sure_label_on_both_sides_shares_all_or_nothing():
    sure = (0, 1, 0, 0, 0)
    assert m.coupling_nmi(sure, sure) == 1
    assert m.coupling_nmi(sure, (1, 0, 0, 0, 0)) == 0


def test_overlap_of_quoted_words():
    assert m.evidence_overlap([], []) is None
    assert m.evidence_overlap(["the red door"], ["The RED house"]) == 0.5


@given(st.lists(distributions(), min_size=1, max_size=4), st.lists(distributions(), min_size=4))
def test_the_mean_of_several_lies_among_them(one, other):
    several = [m.metrics(a, b, FIVE) for a, b in zip(one, other, strict=False)]
    found = m.mean_metrics(several)
    assert min(x.wd for x in several) - 1e-9 <= found.wd <= max(x.wd for x in several) + 1e-9
    assert found.smoothed == any(x.smoothed for x in several)
