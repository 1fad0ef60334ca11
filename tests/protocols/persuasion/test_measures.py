"""Accuracy, gap, win rates and Elo: by hand, and what holds of all tournaments."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from rldf_ray.protocols.item_sets import ItemSet
from rldf_ray.protocols.persuasion.elo import Win, connected, draws, fit, least_squares
from rldf_ray.protocols.persuasion.measures import (
    accuracy,
    by_system,
    gap_recovered,
    win_estimates,
    win_rate,
    wins,
)
from rldf_ray.protocols.persuasion.records import OUTCOMES
from rldf_ray.protocols.persuasion.summary import summary
from tests.protocols.persuasion.script import (
    ITEM,
    Script,
    argument,
    held,
    honest,
    settings,
    tables_of,
    trusts_quotes,
)


def row(item, correct, **changed):
    right = "A" if changed.get("position", "plain") == "plain" else "B"
    wrong = "B" if right == "A" else "A"
    given = {
        "item_id": item,
        "protocol": "debate",
        "key": "debate/d v d",
        "correct_debater": "d",
        "incorrect_debater": "d",
        "judge": "j",
        "position": "plain",
        "interactive": False,
        "correct": correct,
        "letter": None if correct is None else right if correct else wrong,
        "p_a": 0.6,
        **changed,
    }
    return {**dict.fromkeys(OUTCOMES.names), **given}


GROUPS = {f"q{n}": f"s{n // 2}" for n in range(24)}


def test_accuracy_leaves_out_what_is_no_verdict_and_counts_it():
    rows = [
        row("q0", True),
        row("q0", False, position="swapped"),
        row("q1", True),
        row("q1", True, position="swapped"),
        row("q2", None),
        row("q3", None, failure="no argument"),
        # Half a question is none: one position, or the consultancy for the correct answer alone.
        row("q4", True),
        row("q4", None, position="swapped"),
        row("q5", True, side="correct"),
        row("q5", None, side="incorrect", failure="no argument"),
    ]
    found = accuracy(rows, GROUPS, 1)
    assert (found.accuracy.value, found.accuracy.n) == (0.75, 4)
    assert (found.no_verdict, found.failed) == (2, 2)
    assert found.agrees.value == 0.5
    assert found.a_bias.value == pytest.approx(0.1)


def test_the_gap_by_hand_and_where_it_is_undefined():
    naive = [row(f"q{n}", n % 2 == 0, protocol="naive") for n in range(20)]
    expert = [row(f"q{n}", True, protocol="expert") for n in range(20)]
    debate = [row(f"q{n}", n % 4 != 1) for n in range(20)]
    found = gap_recovered(debate, naive, expert, GROUPS, 1)
    assert found.value == pytest.approx((0.75 - 0.5) / (1 - 0.5))
    assert found.low <= found.value <= found.high
    assert gap_recovered(debate, naive, naive, GROUPS, 1) is None
    assert gap_recovered(debate, expert, naive, GROUPS, 1) is None
    assert gap_recovered([], naive, expert, GROUPS, 1) is None
    # Not clipped: worse than naive is below 0.
    worse = [row(f"q{n}", False) for n in range(20)]
    assert gap_recovered(worse, naive, expert, GROUPS, 1).value == -1


def test_the_gap_is_of_the_questions_that_all_three_have():
    # The naive judge is right of the first ten questions, whose debates failed, and the expert
    # knows all but the last of them.
    naive = [row(f"q{n}", n < 10, protocol="naive") for n in range(24)]
    expert = [row(f"q{n}", None if n == 23 else True, protocol="expert") for n in range(24)]
    debate = [row(f"q{n}", None, failure="no argument") for n in range(10)]
    debate += [row(f"q{n}", n != 22) for n in range(10, 24)]
    found = gap_recovered(debate, naive, expert, GROUPS, 1)
    assert (found.value, found.n) == (pytest.approx(12 / 13), 13)
    assert gap_recovered(debate[:10], naive, expert, GROUPS, 1) is None
    # Ten questions of five stories.
    assert gap_recovered(debate[:20], naive, expert, GROUPS, 1) is None


def match(correct, incorrect, right, number=1, item="q0"):
    return [
        row(item, r, correct_debater=correct, incorrect_debater=incorrect)
        for r in [True] * right + [False] * (number - right)
    ]


def test_win_rates_over_sides_by_hand():
    rows = match("x", "y", 3, 4) + match("y", "x", 1, 4) + match("x", "x", 4, 4)
    found = win_rate(rows, "x", "y")
    # x is right in 3 of 4; y is right in 1 of 4, so x wins 3 of 4 for the wrong answer.
    assert (found.correct, found.incorrect, found.mean) == (0.75, 0.75, 0.75)
    assert win_rate(rows, "x", "z") is None
    assert win_rate(match("x", "y", 1), "x", "y") is None


def test_win_rates_with_intervals_weigh_both_assignments_the_same():
    # x is right in 6 of 8, and y, asked twice as often, in 4 of 16.
    rows = [row(f"q{2 * n}", n < 6, correct_debater="x", incorrect_debater="y") for n in range(8)]
    rows += [
        row(f"q{2 * (n // 2)}", n < 4, correct_debater="y", incorrect_debater="x")
        for n in range(16)
    ]
    correct, incorrect, mean = win_estimates(rows, "x", "y", GROUPS, 1)
    assert (correct.value, incorrect.value, mean.value) == (0.75, 0.75, 0.75)
    rows.append(row("q0", True, correct_debater="x", incorrect_debater="y"))
    correct, incorrect, mean = win_estimates(rows, "x", "y", GROUPS, 1)
    assert (correct.value, incorrect.value) == (7 / 9, 0.75)
    assert mean.value == pytest.approx((7 / 9 + 0.75) / 2)
    assert mean.low < mean.value < mean.high
    assert win_estimates(match("x", "y", 1), "x", "y", GROUPS, 1) is None
    assert win_rate(rows, "x", "y").mean == pytest.approx(mean.value)


def ratings(several, seed):
    stories = list(dict.fromkeys(win.group for win in several))
    return fit(several, stories, draws(len(stories), seed)).ratings()


def test_elo_of_two_is_the_odds():
    several = [Win(winner=("x",), loser=("y",), group=n) for n in range(300)]
    several += [Win(winner=("y",), loser=("x",), group=n) for n in range(100)]
    found = ratings(several, 1)
    apart = found[("x",)].value - found[("y",)].value
    # Odds of 3 to 1: 400 log10(3) = 190.8.
    assert apart == pytest.approx(400 * np.log10(3), abs=1)
    assert found[("x",)].value + found[("y",)].value == pytest.approx(3000)
    assert found[("x",)].low < found[("x",)].value < found[("x",)].high
    squares = least_squares({(("x",), ("y",)): 0.75})
    assert squares[("x",)] - squares[("y",)] == pytest.approx(190.8, abs=1)


NODES = st.sampled_from([("a",), ("b",), ("c",), ("d",)])


@hypothesis_settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(NODES, NODES, st.integers(0, 3)), max_size=25))
def test_ratings_have_mean_1500_and_only_those_who_are_connected_have_one(pairs):
    several = [Win(winner=a, loser=b, group=g) for a, b, g in pairs if a != b]
    found = ratings(several, 1)
    assert set(found) == (set(connected(several)) if len(connected(several)) > 1 else set())
    if found:
        assert np.mean([one.value for one in found.values()]) == pytest.approx(1500)


def test_an_island_has_no_rating():
    several = [
        Win(winner=("a",), loser=("b",), group=1),
        Win(winner=("b",), loser=("c",), group=1),
        Win(winner=("y",), loser=("z",), group=1),
    ]
    assert connected(several) == [("a",), ("b",), ("c",)]
    assert set(ratings(several, 1)) == {("a",), ("b",), ("c",)}


def test_nodes_by_side_and_self_play():
    rows = match("x", "x", 1) + match("x", "y", 1) + match("y", "x", 0)
    assert [(w.winner, w.loser) for w in wins(rows, GROUPS, False)] == [
        (("x",), ("y",)),
        (("x",), ("y",)),
    ]
    by_side = [(w.winner, w.loser) for w in wins(rows, GROUPS, True)]
    assert by_side[0] == (("x", "correct"), ("x", "incorrect"))
    assert by_side[2] == (("x", "incorrect"), ("y", "correct"))
    assert wins([row("q0", None)], GROUPS, True) == []
    assert len(by_system(rows)) == 1


async def test_the_report_says_the_bounds_first_and_warns_of_its_own_rater():
    from dataclasses import replace

    items = [replace(ITEM, item_id=f"q{n}", group=f"s{n}", agrees=bool(n % 2)) for n in range(4)]
    changes = {
        "debaters": {"x": {"model": "m"}, "y": {"model": "m", "best_of": 2}},
        "matches": "round_robin",
        "oversampling": 2,
    }
    found = [await held(Script(honest, trusts_quotes), item, **changes) for item in items]
    given = ItemSet(items, {"their story is too long": 3, "nobody voted": 1})
    report = summary(given, tables_of(*found), settings(**changes), 1)
    assert report.notes[0] == "4 questions about 4 stories."
    assert report.notes[1] == "Left out: 3 as their story is too long; 1 as nobody voted."
    assert report.facts["left_out"] == given.left_out
    assert report.notes[2].startswith("m: accuracy by letter 0.500")
    assert any("who judges as well" in note for note in report.notes)
    names = {table.name for table in report.tables}
    assert names == {
        "accuracy",
        "stereotype",
        "elo",
        "slopes",
        "wins",
        "quotes",
        "left-out",
    }
    for table in report.tables:
        assert all(len(cells) == len(table.columns) for cells in table.rows), table.name
    quotes = next(table for table in report.tables if table.name == "quotes")
    shown = [dict(zip(quotes.columns, cells, strict=True)) for cells in quotes.rows]
    debate = [one for one in shown if one["protocol"] == "debate"]
    assert {(one["side"], one["verified"], one["unverified"]) for one in debate} == {
        ("correct", "1.0", "0.0"),
        ("incorrect", "0.0", "1.0"),
    }
    assert {figure.name for figure in report.figures} >= {
        "accuracy",
        "course",
        "quotes",
        "persuasiveness",
    }


async def test_the_report_counts_names_that_the_other_position_changes():
    def says(request, number):
        if request.address.endswith("incorrect/turn"):
            return argument("Debater A says <quote>the telephone</quote>, and Debater A errs.")
        return honest(request, number)

    async def notes(**changes):
        changes["protocols"] = ["debate"]
        found = await held(Script(says, trusts_quotes), **changes)
        report = summary([ITEM], tables_of(found), settings(**changes), 1)
        (table,) = (one for one in report.tables if one.name == "quotes")
        return table.notes

    # Two arguments of two rounds; what is held in each position is shown as it was written.
    *_, note = await notes()
    assert "in the 4 arguments of debates that were held once" in note
    assert note.endswith("exchanged for the other position: 4 times.")
    assert not any("exchanged" in one for one in await notes(interactive=[True]))
