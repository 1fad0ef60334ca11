"""Swiss rounds by hand, and what rises with the debaters' Elo."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.protocols.persuasion.estimate import estimate
from rldf_ray.protocols.persuasion.matches import (
    both_assignments,
    matches,
    most_rounds,
    next_round,
    paired,
    points,
    swiss_rounds,
)
from rldf_ray.protocols.persuasion.records import OUTCOMES
from rldf_ray.protocols.persuasion.results import Results
from rldf_ray.protocols.persuasion.tournament import (
    _slope,
    elo_table,
    slopes,
    swiss_table,
    win_table,
)
from tests.protocols.persuasion.script import ITEM, settings, tables_of
from tests.protocols.persuasion.test_measures import row
from tests.protocols.persuasion.test_readings import pair

FIVE = ["a", "b", "c", "d", "e"]


def swiss(names="wxyz", **changes):
    debaters = {name: {"model": "m"} for name in names}
    return settings(debaters=debaters, matches="swiss", protocols=["debate"], **changes)


def won(one, other):
    """Verdicts of a match that `one` wins on both sides, in both positions."""
    return [
        row(
            "q0",
            correct == one,
            position=position,
            correct_debater=correct,
            incorrect_debater=wrong,
        )
        for correct, wrong in ((one, other), (other, one))
        for position in ("plain", "swapped")
    ]


def test_those_next_to_each_other_meet_and_nobody_meets_anybody_twice():
    assert paired("wxyz", {}, ()) == [("w", "x"), ("y", "z")]
    first = [("w", "x"), ("y", "z")]
    scores = points([first], "wxyz", [*won("w", "x"), *won("z", "y")])
    assert scores == {"w": 1, "x": 0, "y": 0, "z": 1}
    assert paired("wxyz", scores, [first]) == [("w", "z"), ("x", "y")]


def test_an_odd_number_by_hand():
    one = paired(FIVE, {}, ())
    assert one == [("a", "b"), ("c", "d")]
    verdicts = [*won("a", "b"), *won("c", "d")]
    scores = points([one], FIVE, verdicts)
    assert scores == {"a": 1, "b": 0, "c": 1, "d": 0, "e": 0.5}
    # In the order a, c, e, b, d: d rests, as e has rested before.
    two = paired(FIVE, scores, [one])
    assert two == [("a", "c"), ("e", "b")]
    verdicts += [*won("a", "c"), *won("e", "b")]
    scores = points([one, two], FIVE, verdicts)
    assert scores == {"a": 2, "b": 0, "c": 1, "d": 0.5, "e": 1.5}
    # b rests. a and e would leave c and d, who have met; a and c have met as well.
    assert paired(FIVE, scores, [one, two]) == [("a", "d"), ("e", "c")]


def test_a_match_that_nobody_won_is_half_a_point_to_both():
    # w is right once, and so is x: each wins for the truth alone.
    even = [
        row("q0", True, correct_debater="w", incorrect_debater="x"),
        row("q0", True, correct_debater="x", incorrect_debater="w"),
    ]
    assert points([[("w", "x")]], "wx", even) == {"w": 0.5, "x": 0.5}
    assert points([[("w", "x")]], "wx", []) == {"w": 0.5, "x": 0.5}


def test_probability_decides_a_match_where_letters_are_positions():
    # A in all four verdicts; leaning to w's answer in both assignments.
    verdicts = [
        *pair("q0", 0.9, 0.7, correct_debater="w", incorrect_debater="x"),
        *pair("q0", 0.7, 0.9, correct_debater="x", incorrect_debater="w"),
    ]
    assert points([[("x", "w")]], "wx", verdicts) == {"w": 1, "x": 0}


def test_rounds_follow_from_the_verdicts():
    plan = swiss()
    assert most_rounds(plan) == 2 and most_rounds(swiss("wx")) == 1
    assert most_rounds(swiss("abcdefghijk")) == 3
    alone = [(name, name) for name in "wxyz"]
    first = [("w", "x"), ("x", "w"), ("y", "z"), ("z", "y")]
    assert matches(plan) == [*alone, *first]
    verdicts = [*won("w", "x"), *won("z", "y")]
    assert swiss_rounds(verdicts, plan) == [[("w", "x"), ("y", "z")]]
    second = next_round(verdicts, plan)
    assert second == both_assignments([("w", "z"), ("x", "y")])
    verdicts += [*won("w", "z"), *won("x", "y")]
    assert len(swiss_rounds(verdicts, plan)) == 2
    assert next_round(verdicts, plan) is None
    assert next_round([], settings(matches="round_robin")) is None


@given(st.integers(2, 9), st.randoms(use_true_random=False))
def test_whoever_wins_all_have_a_match_and_nobody_rests_twice(number, chance):
    names = [f"n{place}" for place in range(number)]
    rounds = []
    for _ in range(3):
        scores = {name: chance.choice([0, 0.5, 1]) for name in names}
        pairs = paired(names, scores, rounds)
        if not pairs:
            # Only where all have met.
            assert number <= 4
            break
        rounds.append(pairs)
    played = [frozenset(one) for pairs in rounds for one in pairs]
    assert len(played) == len(set(played))
    for pairs in rounds:
        assert len({name for one in pairs for name in one}) == number - number % 2
    byes = [name for pairs in rounds for name in set(names).difference(*pairs)]
    assert len(byes) == len(set(byes))


def test_a_swiss_tournament_asks_for_less_than_a_round_robin():
    def calls(kind):
        debaters = {name: {"model": "m"} for name in "abcdefgh"}
        plan = settings(debaters=debaters, matches=kind, protocols=["debate"])
        return sum(one.calls for one in estimate([ITEM], plan))

    # Eight with themselves and three rounds of eight debates, against eight times eight.
    assert calls("swiss") * 64 == calls("round_robin") * 32


def test_slopes_by_least_squares():
    x = np.array([[1400.0, 1500.0, 1600.0], [1400.0, 1500.0, 1600.0], [1500.0, 1500.0, 1500.0]])
    y = np.array([[10.0, 30.0, 50.0], [10.0, 40.0, 50.0], [1.0, 2.0, 3.0]])
    found = _slope(x, y)
    # 20 more for every 100; the last resample has no slope, and the interval is of the other.
    assert (found.value, found.low, found.high, found.n) == (20.0, 20.0, 20.0, 3)
    assert _slope(x[:, :1], y[:, :1]) is None
    assert _slope(x[2:], y[2:]) is None


def tournament_results():
    """y beats x more often for the truth than against it, and y against y shows it more often."""
    shares = {("x", "x"): 10, ("y", "y"): 15, ("x", "y"): 8, ("y", "x"): 17}
    outcomes = [
        verdict
        for (correct, wrong), right in shares.items()
        for n in range(20)
        for verdict in pair(
            f"q{n}",
            *((0.9, 0.1) if n < right else (0.1, 0.9)),
            correct_debater=correct,
            incorrect_debater=wrong,
            judge="m",
        )
    ]
    items = {f"q{n}": replace(ITEM, item_id=f"q{n}", group=f"s{n}") for n in range(20)}
    debaters = {"x": {"model": "m"}, "y": {"model": "m"}}
    return Results(
        items=items,
        tables={**tables_of(), "outcomes": pa.Table.from_pylist(outcomes, OUTCOMES)},
        settings=settings(debaters=debaters, matches="round_robin"),
        seed=1,
        left_out={},
    )


def test_what_rises_with_elo_by_hand():
    results = tournament_results()
    (letter, probability) = slopes(results)
    assert (letter.how, probability.how, letter.debaters) == ("letter", "probability", 2)
    # y beats x in 17 of 20 for the truth and 12 of 20 against it: 29 to 11.
    ratings = results.tournaments["m", "letter"].every.ratings()
    apart = ratings["y",].value - ratings["x",].value
    assert apart == pytest.approx(400 * np.log10(29 / 11), abs=2)
    # Accuracy with itself: .5 and .75.
    assert letter.accuracy.value == pytest.approx(100 * 0.25 / apart)
    assert letter.accuracy.low < letter.accuracy.value < letter.accuracy.high
    sides = results.tournaments["m", "letter"].sides.ratings()
    gain = [sides[n, "correct"].value - sides[n, "incorrect"].value for n in "xy"]
    assert letter.advantage.value == pytest.approx(100 * (gain[1] - gain[0]) / apart)
    wins = win_table(results)
    assert wins.rows[0][:4] == ["m", "letter", "x", "y"]
    assert [cell[:5] for cell in wins.rows[0][4:]] == ["0.400", "0.150", "0.275"]
    assert len(elo_table(results).rows) == 4
    assert swiss_table(results) is None
