"""Agreement, against published worked examples."""

from __future__ import annotations

import krippendorff
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from rldf_ray.evaluate.people.agreement import fleiss_kappa, krippendorff_alpha

# The worked example of Wikipedia's article on Fleiss' kappa: 14 raters put 10 items into 5
# categories; kappa is .210.
EXAMPLE = np.array(
    [
        [0, 0, 0, 0, 14],
        [0, 2, 6, 4, 2],
        [0, 0, 3, 5, 6],
        [0, 3, 9, 2, 0],
        [2, 2, 8, 1, 1],
        [7, 7, 0, 0, 0],
        [3, 2, 6, 3, 0],
        [2, 5, 3, 2, 2],
        [6, 5, 2, 1, 0],
        [0, 2, 2, 3, 7],
    ]
)
# Fleiss 1971, table 1: 30 patients, each put by 6 psychiatrists into one of 5 diagnoses; a string
# has a patient's counts. Its kappa is .430.
DIAGNOSES = np.array(
    [
        list(map(int, patient))
        for patient in (
            "00060",
            "03003",
            "01401",
            "00006",
            "03030",
            "20400",
            "00402",
            "20310",
            "20040",
            "00006",
            "10050",
            "11040",
            "03300",
            "10050",
            "02031",
            "00501",
            "30012",
            "51000",
            "02040",
            "10203",
            "00006",
            "01050",
            "02013",
            "20040",
            "10041",
            "05010",
            "40002",
            "02040",
            "10500",
            "00006",
        )
    ]
)
NAN = float("nan")


def test_kappa_of_the_published_examples() -> None:
    assert fleiss_kappa(EXAMPLE) == pytest.approx(0.210, abs=5e-4)
    assert DIAGNOSES.sum(0).tolist() == [26, 26, 30, 55, 43]
    assert fleiss_kappa(DIAGNOSES) == pytest.approx(0.430, abs=5e-4)


def test_alpha_of_the_published_example() -> None:
    # Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), C: interval data, .849.
    data = [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
        [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
    ]
    assert krippendorff_alpha(np.array(data)) == pytest.approx(0.849, abs=5e-4)


@settings(max_examples=60, deadline=None)
@given(
    arrays.arrays(int, st.tuples(st.integers(2, 9), st.integers(2, 5)), elements=st.integers(0, 3))
)
def test_kappa_differs_from_nominal_alpha_in_the_agreement_by_chance_alone(
    votes: np.ndarray,
) -> None:
    counts = np.stack([np.bincount(item, minlength=4) for item in votes])
    found = fleiss_kappa(counts)
    if len(np.unique(votes)) == 1:
        assert found is None
        return
    alpha = krippendorff.alpha(value_counts=counts, level_of_measurement="nominal")
    total = counts.sum()
    assert found == pytest.approx(1 - (1 - alpha) * total / (total - 1))


@settings(max_examples=100, deadline=None)
@given(
    arrays.arrays(
        float,
        st.tuples(st.integers(2, 5), st.integers(2, 9)),
        elements=st.one_of(st.just(NAN), st.integers(0, 10).map(float)),
    )
)
def test_alpha_is_what_the_package_of_that_name_computes(scores: np.ndarray) -> None:
    found = krippendorff_alpha(scores)
    if found is not None:
        of_package = krippendorff.alpha(reliability_data=scores, level_of_measurement="interval")
        assert found == pytest.approx(of_package)


def test_perfect_agreement_is_one_and_a_lone_category_is_undefined() -> None:
    assert fleiss_kappa(np.array([[3, 0], [0, 3]])) == pytest.approx(1)
    assert fleiss_kappa(np.array([[3, 0], [3, 0]])) is None
    assert krippendorff_alpha(np.array([[10.0, 20.0], [10.0, 20.0]])) == pytest.approx(1)
    assert krippendorff_alpha(np.array([[10.0, 10.0], [10.0, 10.0]])) is None
    assert krippendorff_alpha(np.array([[10.0, NAN], [20.0, 30.0]])) is None


def test_unequal_numbers_of_raters_are_refused() -> None:
    with pytest.raises(ValueError, match="one number, 2 or more"):
        fleiss_kappa(np.array([[2, 1], [1, 1]]))
    with pytest.raises(ValueError, match="one number, 2 or more"):
        fleiss_kappa(np.array([[1, 0], [0, 1]]))
