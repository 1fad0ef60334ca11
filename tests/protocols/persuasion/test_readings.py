"""Verdicts read by probability over both positions, by hand: what a liking for a letter hides."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.protocols.persuasion.measures import accuracy, gap_recovered
from rldf_ray.protocols.persuasion.readings import READINGS, one_letter, readings, readings_table
from rldf_ray.protocols.persuasion.summary import summary
from tests.protocols.persuasion.script import (
    ITEM,
    Script,
    held,
    honest,
    settings,
    tables_of,
    text_of,
    trusts_quotes,
)
from tests.protocols.persuasion.test_measures import GROUPS, row


def pair(item, plain, swapped, **of):
    """Both verdicts on a question, given p(A) in each position; the letter is the likelier one."""
    rows = []
    for position, right, p_a in (("plain", "A", plain), ("swapped", "B", swapped)):
        letter = "A" if p_a > 0.5 else "B"
        rows.append(
            row(
                item,
                letter == right,
                position=position,
                letter=letter,
                p_a=p_a,
                p_correct=p_a if right == "A" else 1 - p_a,
                **of,
            )
        )
    return rows


def test_a_judge_that_always_names_a_is_read_by_what_is_left_of_its_liking():
    # A in both positions; the right answer is at .9 and .3, .9 and .05, .9 and .1.
    rows = [*pair("q0", 0.9, 0.7), *pair("q2", 0.9, 0.95), *pair("q4", 0.9, 0.9)]
    found = readings(rows)
    assert [one["p_correct"] for one in found] == pytest.approx([0.6, 0.475, 0.5])
    assert [one["correct"] for one in found] == [True, False, None]
    assert [one["same"] for one in found] == [False] * 3
    assert one_letter(found) == ("A", 1.0)
    one = accuracy(rows, GROUPS, 1)
    assert (one.accuracy.value, one.accuracy.n) == (0.5, 6)
    assert (one.accuracy_by_probability.value, one.accuracy_by_probability.n) == (0.5, 2)
    assert (one.even, one.agrees.value, one.one_letter) == (1, 0.0, ("A", 1.0))


def test_a_position_without_a_probability_or_a_twin_gives_no_reading():
    half = pair("q0", 0.9, 0.7)
    half[1]["p_correct"] = None
    none = pair("q1", 0.9, 0.2)
    none[0].update(letter=None, correct=None)
    (one, other) = readings([*half, *none, pair("q2", 0.9, 0.1)[0]])
    assert (one["p_correct"], one["correct"], one["same"]) == (None, None, False)
    # A verdict that is none may still have probabilities; of the letters nothing is known.
    assert (other["p_correct"], other["correct"], other["same"]) == (0.85, True, None)
    assert one_letter([other]) is None


def test_what_is_held_apart_is_read_apart():
    rows = [
        *pair("q0", 0.9, 0.1, protocol="consultancy", side="correct"),
        *pair("q0", 0.2, 0.9, protocol="consultancy", side="incorrect"),
        *pair("q0", 0.9, 0.1, judge="k"),
        *pair("q0", 0.9, 0.1, interactive=True, key="debate/d v d, j asks, plain"),
        *pair("q0", 0.3, 0.9, incorrect_debater="e"),
    ]
    found = readings(rows)
    assert [one["correct"] for one in found] == [True, False, True, True, False]
    assert readings_table(rows).schema == READINGS


P = st.floats(0.01, 0.99)


@given(P, P, st.floats(-3, 3))
def test_a_liking_for_a_letter_changes_no_reading(one, other, liking):
    """The same in log-odds on A in both positions, as a liking for A adds it."""

    def shifted(p):
        odds = p / (1 - p) * 2.718281828**liking
        return odds / (1 + odds)

    before = readings(pair("q0", one, other))[0]["correct"]
    after = readings(pair("q0", shifted(one), shifted(other)))[0]["correct"]
    assert abs(one + (1 - other) - 1) < 1e-6 or before == after


def test_the_gap_by_probability_where_letters_show_none():
    def judged(protocol, plain, swapped):
        return [
            verdict
            for n in range(20)
            for verdict in pair(f"q{n}", plain(n), swapped(n), protocol=protocol)
        ]

    # All say A by letter. Leaning to the right answer: naive in half, debate in 3 of 4, expert all.
    naive = judged("naive", lambda n: 0.9 if n % 2 else 0.7, lambda n: 0.8)
    debate = judged("debate", lambda n: 0.9 if n % 4 else 0.7, lambda n: 0.8)
    expert = judged("expert", lambda n: 0.9, lambda n: 0.8)
    assert gap_recovered(debate, naive, expert, GROUPS, 1) is None
    found = gap_recovered(readings(debate), readings(naive), readings(expert), GROUPS, 1)
    assert found.value == pytest.approx((0.75 - 0.5) / (1 - 0.5))
    assert found.low <= found.value <= found.high


def likes_a(request):
    """A judge that always says A, a little surer where A has the verified quote."""
    if request.choices == ("Y", "N"):
        return 0.0
    shown = text_of(request)
    if "Debater A:" not in shown:
        return 0.8 if "A. The grandfather" in shown else 0.85
    return 0.9 if trusts_quotes(request) > 0.5 else 0.7


async def report_of(judge, tells=True):
    items = [replace(ITEM, item_id=f"q{n}", group=f"s{n}") for n in range(6)]
    script = Script(honest, judge, tells=tells)
    found = [await held(script, item, protocols=["naive", "debate"]) for item in items]
    return summary(items, tables_of(*found), settings(protocols=["naive", "debate"]), 1)


async def test_the_report_says_where_a_letter_is_a_position():
    report = await report_of(likes_a)
    (table,) = (one for one in report.tables if one.name == "accuracy")
    shown = {row[1]: row for row in table.rows}
    assert table.columns[3:5] == ["accuracy by letter", "accuracy by probability"]
    # By letter half of both; by probability the naive judge is wrong of all, the debate's right.
    assert shown["naive"][3:5] == ["0.500", "0.000"]
    assert shown["debate, d"][3:5] == ["0.500", "1.000"]
    assert any("judged alike in both positions 0% of 12 times" in note for note in report.notes)
    (said,) = (note for note in report.notes if "names A in both positions" in note)
    assert "(in all it judges, 100% or more)" in said and "read its accuracy by probability" in said
    assert any(
        "debate, d less naive: +0.000" in note and "+1.000 by probability" in note
        for note in report.notes
    )
    fact = next(one for one in report.facts["accuracy"] if one["protocol"] == "debate")
    assert fact["accuracy_by_probability"]["value"] == 1.0
    assert fact["one_letter"] == ("A", 1.0)


async def test_without_probabilities_such_a_judge_says_nothing():
    report = await report_of(likes_a, tells=False)
    assert any("so its accuracy says nothing" in note for note in report.notes)
    assert not any("by probability" in note for note in report.notes)


async def test_a_judge_that_reads_is_not_called_one_of_positions():
    report = await report_of(trusts_quotes)
    stuck = [note for note in report.notes if "in both positions most of the time" in note]
    # Without anything to go by it says A; of debates it says what it trusts.
    assert len(stuck) == 1 and "(naive 100%)" in stuck[0]
