"""Figures of the loop: the paper's bound, BBQ's own scores, changes; wild and by hand."""

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.protocols.mabrf.measures import (
    answer_scores,
    changes,
    mcnemar,
    measured,
    paired,
    right,
)
from rldf_ray.protocols.mabrf.records import OUTCOMES, PASSES
from rldf_ray.protocols.mabrf.summary import summary
from tests.protocols.mabrf.script import ITEM, settings


def row(item, **changed):
    given = {
        "item_id": item.item_id,
        "arm": "without",
        "stop": "clean",
        "passes": 1,
        "accepted": 1,
        "answer_0": "0",
        "answer_1": "2",
        "bias_0": 5,
        "bias_1": 1,
        "relevancy_0": 6,
        "relevancy_1": 7,
        "steps_0": "1. a",
        "steps_1": "1. b",
        "retest_bias": [5],
        "retest_relevancy": [6],
        **changed,
    }
    return {**dict.fromkeys(OUTCOMES.names), **given}


def items(number):
    return [
        replace(
            ITEM,
            item_id=f"i{n}",
            group=f"g{n // 2}",
            condition="ambig" if n % 2 else "disambig",
            category=f"c{n % 3}",
            label=2 if n % 2 else 1,
        )
        for n in range(number)
    ]


VERDICT = st.one_of(st.none(), st.tuples(st.integers(1, 10), st.integers(1, 10)))
ANSWER = st.one_of(st.none(), st.sampled_from(["0", "1", "2"]))
STOP = st.sampled_from(["clean at once", "clean", "max passes", "no verdict", "failed"])
WILD = st.lists(
    st.fixed_dictionaries(
        {
            "stop": STOP,
            "passes": st.integers(0, 5),
            "answer_0": ANSWER,
            "answer_1": ANSWER,
            "verdict_0": VERDICT,
            "verdict_1": VERDICT,
        }
    ),
    min_size=1,
    max_size=12,
)


def wild(item, verdict_0, verdict_1, **changed):
    """A row whose verdicts are whole, or none."""
    for when, verdict in enumerate((verdict_0, verdict_1)):
        changed[f"bias_{when}"], changed[f"relevancy_{when}"] = verdict or (None, None)
    changed["retest_bias"] = [] if verdict_0 is None else [4]
    changed["retest_relevancy"] = [] if verdict_0 is None else [4]
    return row(item, **changed)


@given(WILD)
def test_the_paper_s_bound_holds_whatever_comes_out(several):
    several_items = items(len(several))
    rows = {i.item_id: wild(i, **one) for i, one in zip(several_items, several, strict=True)}
    for when in (0, 1):
        found = measured(several_items, rows, when, 1, 3)
        if found is not None and found.bias is not None:
            assert found.acc_judged is not None
            assert abs(found.bias) <= 1 - found.acc_judged.value + 1e-12
            assert found.flagged is not None
            assert 0 <= found.flagged.value <= 1


@given(WILD, st.booleans())
def test_the_bound_holds_in_every_table_that_is_printed(several, judged):
    several_items = items(len(several))
    if judged:
        several = [
            {**one, **{f"verdict_{n}": one[f"verdict_{n}"] or (5, 5) for n in (0, 1)}}
            for one in several
        ]
    rows = [wild(i, **one) for i, one in zip(several_items, several, strict=True)]
    tables = {
        "outcomes": pa.Table.from_pylist(rows, OUTCOMES),
        "passes": pa.Table.from_pylist([], PASSES),
    }
    report = summary(several_items, tables, settings(), 1)
    bounded: set[str] = set()
    for table in report.tables:
        assert all(len(cells) == len(table.columns) for cells in table.rows)
        bounded.update(set(table.columns) & {"BIAS", "BIAS0", "BIAS1"})
        for acc, bias in (("ACC, judged", "BIAS"), ("ACC0", "BIAS0"), ("ACC1", "BIAS1")):
            # The paper's tables have no ACC of those with a verdict, which is theirs if all have.
            if bias not in table.columns or not (judged or bias == "BIAS"):
                continue
            for cells in table.rows:
                shown = dict(zip(table.columns, cells, strict=True))
                if shown[bias] != "–" and shown[acc] != "–":
                    most = 1 - float(shown[acc].split()[0])
                    # Both are rounded to three decimals.
                    assert abs(float(shown[bias])) <= most + 1.01e-3
    assert bounded == {"BIAS", "BIAS0", "BIAS1"} or all(r["stop"] == "failed" for r in rows)


def test_the_paper_s_bias_by_hand_and_why_it_says_little():
    three = items(4)
    wrong = {i.item_id: row(i, answer_1="0", bias_1=1) for i in three}
    found = measured(three, wrong, 1, 1, 1)
    assert found is not None
    # Nothing is flagged, and all answers are wrong: "reverse bias" of the whole.
    assert (found.acc.value, found.flagged.value, found.bias) == (0, 0, -1)
    mixed = {
        i.item_id: row(i, answer_1=str(i.label) if n else "0", bias_1=4 if n < 2 else 1)
        for n, i in enumerate(three)
    }
    again = measured(three, mixed, 1, 1, 1)
    assert again is not None
    assert (again.acc.value, again.flagged.value) == (0.75, 0.5)
    assert again.bias == 0
    assert again.solved.value == 0.5


def test_a_verdict_that_is_none_is_out_of_bias_and_counted_and_an_answer_that_is_none_is_wrong():
    two = items(2)
    rows = {
        "i0": row(two[0], bias_1=None, relevancy_1=None, answer_1="1"),
        "i1": row(two[1], answer_1=None),
    }
    found = measured(two, rows, 1, 1, 1)
    assert found is not None
    assert (found.n, found.no_verdict, found.no_answer) == (2, 1, 1)
    assert (found.acc.value, found.flagged.n) == (0.5, 1)
    # Of the item with a verdict, which is wrong and not flagged.
    assert (found.acc_judged.value, found.acc_judged.n, found.bias) == (0, 1, -1)
    all_without = {i: {**one, "bias_1": None} for i, one in rows.items()}
    assert measured(two, all_without, 1, 1, 1).bias is None


def test_bias_is_of_the_items_with_a_label_alone():
    two = items(2)
    two[1] = replace(two[1], label=None)
    rows = {"i0": row(two[0], answer_1="0", bias_1=5), "i1": row(two[1], bias_1=1)}
    found = measured(two, rows, 1, 1, 1)
    assert (found.flagged.value, found.acc_judged.n, found.bias) == (0.5, 1, 1)


def test_failed_items_are_left_out():
    two = items(2)
    rows = {"i0": row(two[0], stop="failed"), "i1": row(two[1])}
    found = measured(two, rows, 1, 1, 1)
    assert found is not None
    assert found.n == 1
    assert measured(two, {"i0": rows["i0"]}, 1, 1, 1) is None


def test_bbq_s_own_scores_of_the_answers():
    eight = items(8)
    # Ambiguous: 3 of 4 name somebody, two of them the target; one says it is not known.
    answers = dict(zip(("i1", "i3", "i5", "i7"), ("0", "0", "1", "2"), strict=True))
    # Disambiguated: one target, three others.
    answers |= dict(zip(("i0", "i2", "i4", "i6"), ("0", "1", "1", "1"), strict=True))
    rows = {i.item_id: row(i, answer_1=answers[i.item_id]) for i in eight}
    s_amb, s_dis = answer_scores(eight, rows, 1)
    assert s_dis == pytest.approx(2 * 1 / 4 - 1)
    assert s_amb == pytest.approx((1 - 1 / 4) * (2 * 2 / 3 - 1))
    assert answer_scores(eight, {}, 1) == (None, None)


def test_changes_and_mcnemar():
    four = items(4)
    rows = {
        "i0": row(four[0], answer_0="0", answer_1="1"),  # label 1: fixed
        "i1": row(four[1], answer_0="2", answer_1="0"),  # label 2: worsened
        "i2": row(four[2], answer_0="0", answer_1="1"),  # fixed
        "i3": row(four[3], answer_0="0", answer_1="1", passes=0, accepted=0),  # wrong either way
    }
    found = changes(four, rows)
    assert (found.fixed, found.worsened, found.without_steps) == (2, 1, 1)
    assert found.p == mcnemar(2, 1) == pytest.approx(1.0)
    # Two prompts may give two answers; the loop is tested by what it rewrote.
    alike = {item: {**one, "accepted": 0} for item, one in rows.items()}
    assert changes(four, alike).fixed == 2 and changes(four, alike).p is None
    assert mcnemar(0, 6) == pytest.approx(2 / 64)
    assert mcnemar(0, 0) is None


def test_answers_that_changed_though_no_step_did_are_options():
    four = items(4)
    four[2] = replace(four[2], options=(), label=None)
    rows = {
        # Rewritten twice, and neither rewriting was taken.
        "i0": row(four[0], answer_0="0", answer_1="1", passes=2, accepted=0),
        "i1": row(four[1], answer_0="0", answer_1="1", passes=2, accepted=1),
        "i2": row(four[2], answer_0="Nobody.", answer_1="No one.", passes=0, accepted=0),
        "i3": row(four[3], answer_0=None, answer_1="1", passes=0, accepted=0),
    }
    assert changes(four, rows).without_steps == 1


def test_paired_differences_take_items_that_both_arms_have():
    three = items(3)
    one = {i.item_id: row(i, answer_1="0") for i in three}
    other = {i.item_id: row(i, answer_1=str(i.label)) for i in three[:2]}
    found = paired(three, one, other, lambda item, r: float(right(item, r, 1)), 1)
    assert found is not None
    assert (found.value, found.n) == (1.0, 2)
