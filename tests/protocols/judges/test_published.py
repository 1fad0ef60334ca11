"""The paper's statistics, computed again from the rates that it prints (Tables 5 to 13)."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from rldf_ray.protocols.judges.analysis import paired_t, welch
from rldf_ray.protocols.judges.published import BIASES, debate_cells, meta_cells, published


def test_all_rates_of_the_papers_tables_are_there() -> None:
    tables = Counter(rate.table for rate in published())
    assert tables == {"1": 288, "2": 264, "3": 12, "4": 60, "14": 48, "15": 44, "16": 3, "17": 10}
    assert all(0.5 < rate.value < 1 for rate in published())


def test_debates_lower_consistency_in_their_first_round_by_welchs_test() -> None:
    rounds = [debate_cells(number) for number in range(4)]
    assert [len(cells) for cells in rounds] == [72] * 4
    first = welch(rounds[0], rounds[1])
    assert (first.t, first.low, first.high) == pytest.approx((9.876, 0.0665, 0.0998), abs=1e-3)
    assert 141 < first.df < 143
    assert welch(rounds[1], rounds[2]).t == pytest.approx(0.024, abs=1e-3)
    assert welch(rounds[2], rounds[3]).t == pytest.approx(-0.490, abs=1e-3)
    assert welch(rounds[1], rounds[3]).t == pytest.approx(-0.466, abs=1e-3)


def test_the_same_cells_paired_rise_in_the_last_round() -> None:
    rounds = [debate_cells(number) for number in range(4)]
    assert paired_t(rounds[0], rounds[1]).t == pytest.approx(16.40, abs=5e-3)
    assert paired_t(rounds[1], rounds[2]).t == pytest.approx(0.096, abs=1e-3)
    last = paired_t(rounds[2], rounds[3])
    assert (last.t, last.p) == pytest.approx((-2.81, 0.0064), abs=5e-3)
    assert last.df == 71


@pytest.mark.parametrize(
    ("bias", "expected"),
    [
        ("position", (8.443, 0.270, -1.678)),
        ("cot", (11.963, -1.403, -0.296)),
        ("verbosity", (14.609, 0.974, -1.529)),
        ("bandwagon", (6.499, 0.368, -2.155)),
    ],
)
def test_paired_tests_by_bias(bias: str, expected: tuple[float, ...]) -> None:
    rounds = [debate_cells(number, [bias]) for number in range(4)]
    found = tuple(paired_t(a, b).t for a, b in itertools.pairwise(rounds))
    assert found == pytest.approx(expected, abs=1e-3)


def test_a_meta_judge_loses_little_and_its_modes_hardly_differ() -> None:
    select, _ = meta_cells("select")
    conclude, _ = meta_cells("conclude")
    modes = paired_t(select, conclude)
    assert (modes.t, modes.mean) == pytest.approx((-1.791, -0.0041), abs=1e-3)
    assert modes.p == pytest.approx(0.0759, abs=1e-3)
    above, alone = meta_cells()
    assert len(above) == 240
    change = paired_t(above, alone)
    assert (change.t, change.mean) == pytest.approx((-7.174, -0.0141), abs=1e-3)
    by_bias = {bias: paired_t(*meta_cells(biases=[bias])).t for bias in BIASES}
    assert by_bias == pytest.approx(
        {"position": 0.228, "cot": -6.67, "verbosity": -2.62, "bandwagon": -6.76}, abs=5e-3
    )


def test_meta_judges_by_the_size_of_their_pools() -> None:
    found = {size: paired_t(*meta_cells(pool_size=size)) for size in (2, 3, 4)}
    assert {size: test.t for size, test in found.items()} == pytest.approx(
        {2: -8.457, 3: -1.339, 4: -0.844}, abs=1e-3
    )
    assert [test.df for test in found.values()] == [143, 47, 47]
    # As printed in Table 12; the baselines' denominators differ a little.
    select = [paired_t(*meta_cells("select", pool_size=size)).t for size in (2, 3, 4)]
    assert select == pytest.approx((-6.505, -1.282, -1.403), abs=0.06)
    conclude = [paired_t(*meta_cells("conclude", pool_size=size)).t for size in (2, 3, 4)]
    assert conclude == pytest.approx((-5.398, -0.604, 0.223), abs=0.06)
