"""What a report says first and counts, and the paper's tables in form; figures by hand."""

import json
from dataclasses import replace

import pyarrow as pa

from rldf_ray.protocols.item_sets import ItemSet
from rldf_ray.protocols.mabrf.counts import most_by_default, search_counts
from rldf_ray.protocols.mabrf.records import OUTCOMES, PASSES
from rldf_ray.protocols.mabrf.results import Results
from rldf_ray.protocols.mabrf.summary import summary
from tests.protocols.mabrf.script import (
    FAIR,
    ITEM,
    STEPS,
    Given,
    Script,
    held,
    hit,
    settings,
    tables_of,
    turns_of,
    verdict,
)
from tests.protocols.mabrf.test_measures import items, row

NO_VERDICT = {"bias_0": None, "relevancy_0": None, "retest_bias": [], "retest_relevancy": []}
BOTH = {"none": "none", "given": "ddgs"}


def tables(outcomes, passes=()):
    return {
        "outcomes": pa.Table.from_pylist(list(outcomes), OUTCOMES),
        "passes": pa.Table.from_pylist(list(passes), PASSES),
    }


def cells(report, name):
    (table,) = [table for table in report.tables if table.name == name]
    return [dict(zip(table.columns, one, strict=True)) for one in table.rows]


def test_what_has_to_be_known_first_stands_first():
    four = items(4)
    rows = [
        row(four[0], retest_bias=[9]),
        row(four[1], retest_bias=[5], answer_0=None),
        row(four[2], **NO_VERDICT, stop="no verdict"),
        row(four[3], stop="failed", answer_0=None, answer_1=None, steps_0=""),
    ]
    report = summary(four, tables(rows), settings(), 1)
    assert report.notes[0] == (
        "Format failures: 3 of 15 replies did not parse: 1 of 4 first steps, 1 of 3 first answers, "
        "1 of 3 first verdicts."
    )
    assert report.notes[1].startswith(
        "The judge's retest spread: on the same first steps, in 2 further verdicts, it differs from"
        " itself by 2.000"
    )
    assert "by 2.000" in report.notes[1] and "0.000 in relevancy, of 9." in report.notes[1]
    assert report.notes[2].startswith("The judge flags 1.000 of first steps (bias above 1), and of")
    assert report.notes[3] == (
        "The empty arm: an answer that always says that it is not known is right on 2 of 4 items "
        "(0.500); what is not above it shows no reading."
    )
    assert report.facts["judge"]["retests"] == 2
    assert report.facts["judge"]["bias_spread"]["value"] == 2
    assert {one["what"]: one["unread"] for one in report.facts["unread"]}["first steps"] == 1


def test_a_retest_that_did_not_parse_is_counted_and_no_retest_is_said():
    two = items(2)
    rows = [row(two[0], retest_bias=[], retest_relevancy=[]), row(two[1])]
    report = summary(two, tables(rows), settings(), 1)
    assert "in 2 further verdicts, 1 of which did not parse, it differs" in report.notes[1]
    assert "1 of 2 verdicts again" in report.notes[0]
    none = summary(two, tables(rows), settings(loop={"retests": 0}), 1)
    assert "is not known: no first steps were judged again" in none.notes[1]


def test_the_empty_arm_of_items_without_such_an_option_takes_one_place():
    places = (0, 1, 1, 1, 2)
    five = [
        replace(item, unknown=None, label=place)
        for item, place in zip(items(5), places, strict=True)
    ]
    results = Results(items=five, tables=tables([]), settings=settings(), seed=1)
    assert most_by_default(results) == ("always takes the same place", 3, 5)
    free = [replace(item, label=None) for item in five]
    results = Results(items=free, tables=tables([]), settings=settings(), seed=1)
    assert most_by_default(results) is None


QUERIES = ["old people and phones", "who uses phones", "phones for all", "a fourth query"]


async def test_searches_are_counted_from_what_was_written_to_what_was_found():
    said = {
        "solver/steps": STEPS,
        "solver/answer": "0",
        "first/judge": verdict(7),
        "groups": json.dumps({"groups": ["old"]}),
        "given/1/queries": json.dumps({"queries": QUERIES}),
        "given/1/rephrase": FAIR,
        "given/1/judge": verdict(4),
        "given/2/queries": "no list",
        "given/2/rephrase": FAIR,
        "given/2/judge": "no verdict",
        "given/3/queries": json.dumps({"queries": ["never answered"]}),
        "given/3/rephrase": FAIR,
        "given/3/judge": verdict(1),
    }
    search = Given({QUERIES[0]: [hit("a"), hit("b", ITEM.context)], QUERIES[1]: [hit("a")]})
    found = await held(Script(said, lambda place: "2"), ITEM, search)
    (outcome,) = [row for row in found.tables["outcomes"] if row["arm"] == "given"]
    results = Results(
        items=[ITEM], tables=tables_of(found), settings=settings(searches=BOTH), seed=1
    )
    counts = search_counts(results)["given"]
    # Four were written, three of them searched; the third finds nothing, and so does the last.
    assert (counts.query_lists, counts.unparsed_query_lists) == (3, 1)
    assert (counts.queries_written, counts.searches) == (5, 4)
    assert (counts.failed_searches, counts.empty_searches, counts.lookups_without_hit) == (0, 2, 2)
    assert (counts.hits, counts.overlapping_hits) == (2, 1)
    assert outcome["searches"] == 4
    assert [len(row["searched"]) for row in found.tables["passes"] if row["arm"] == "given"] == [
        3,
        0,
        1,
    ]
    report = summary([ITEM], tables_of(found), settings(searches=BOTH), 1)
    assert report.facts["searches"]["given"]["queries_written"] == 5
    (line,) = cells(report, "searches")
    assert (line["queries written"], line["searches made"], line["empty"]) == ("5", "4", "2")
    assert (
        "given: 5 queries were written and 4 searches made; 0 failed, 2 found nothing; 1 of 3"
        in (" ".join(report.notes))
    )
    unread = {one["replies"]: one["unread"] for one in cells(report, "unread")}
    assert (unread["query lists"], unread["verdicts on them"]) == ("1", "6")
    assert unread["summaries"] == "0"


async def test_summaries_that_are_empty_are_counted_among_those_asked_for():
    said = {
        "solver/steps": STEPS,
        "solver/answer": "0",
        "first/judge": verdict(7),
        "given/1/queries": json.dumps({"queries": QUERIES[:1]}),
        "given/1/summary": "",
        "given/1/judge": verdict(4),
        "given/2/queries": json.dumps({"queries": QUERIES[:1]}),
        "given/2/judge": verdict(4),
        "given/3/queries": json.dumps({"queries": ["nothing is found"]}),
        "given/3/judge": verdict(1),
    }
    search = Given({QUERIES[0]: [hit("a")]})
    found = await held(Script(said, lambda place: "2"), ITEM, search)
    report = summary([ITEM], tables_of(found), settings(searches=BOTH), 1)
    (line,) = [one for one in cells(report, "unread") if one["replies"] == "summaries"]
    assert (line["asked"], line["unread"]) == ("2", "1")
    assert "1 of 2 summaries" in report.notes[0]
    assert report.facts["searches"]["given"]["unread_summaries"] == 1


async def test_what_all_arms_share_is_a_row_of_the_costs():
    said = {"solver/steps": STEPS, "solver/answer": "0", "first/judge": verdict(1)}
    script = Script({**said, "retest 1/judge": verdict(1)}, lambda place: "2")
    found = await held(script, ITEM, Given())
    all_ = {**tables_of(found), "turns": turns_of(found)}
    rows = cells(summary([ITEM], all_, settings(searches=BOTH), 1), "cost")
    # Steps, answer, verdict, and the verdict again; then each arm answers.
    assert {one["arm"]: float(one["calls"]) for one in rows} == {
        "none": 1,
        "given": 1,
        "shared by all arms": 4,
    }
    assert sum(float(one["tokens read"]) for one in rows) == 10 * len(script.asked)
    assert sum(float(one["tokens written"]) for one in rows) == 2 * len(script.asked)


def test_items_that_are_left_out_are_counted_before_what_the_arms_came_to():
    two = ItemSet(items(2), {"the sample has enough": 7})
    report = summary(two, tables([row(item) for item in two]), settings(), 1)
    assert "Items of the data left out: 7 as the sample has enough." in report.notes
    assert report.facts["left_out"] == {"the sample has enough": 7}
    none = summary(items(2), tables([row(item) for item in two]), settings(), 1)
    assert not any("left out" in note for note in none.notes)


async def test_searches_of_a_reader_are_counted_once_for_both_arms():
    script = Script(
        {"given/look up/queries": json.dumps({"queries": QUERIES})}, lambda place: "no reply"
    )
    item = replace(ITEM, options=(), golds=("x",), context="Some paragraph.")
    search = Given({QUERIES[3]: [hit("a")]})
    tables_ = tables_of(await held(script, item, search, kind="squad"))
    results = Results(
        items=[item], tables=tables_, settings=settings(kind="squad", searches=BOTH), seed=1
    )
    counts = search_counts(results)["given"]
    assert (counts.queries_written, counts.searches, counts.empty_searches) == (4, 4, 3)
    assert (counts.query_lists, counts.hits, counts.lookups_without_hit) == (1, 1, 0)


def test_table_1_in_form():
    six = items(6)
    rows = [
        row(six[0], answer_0="1", bias_0=1),  # right, and the target is another: not hard
        row(six[1], answer_0="0", bias_0=5),  # wrong: hard by both
        row(six[2], answer_0="1", **NO_VERDICT),
        row(six[3], answer_0="2", bias_0=2),  # right, and flagged
        row(replace(six[4], target=1), answer_0="1", bias_0=1),  # right, and the stereotyped one
        row(six[5], answer_0=None, bias_0=1),
    ]
    six[4] = replace(six[4], target=1)
    report = summary(six, tables(rows), settings(), 1)
    *categories, overall = cells(report, "items")
    assert [one["category"] for one in categories] == ["c0", "c1", "c2"]
    assert list(overall.values()) == ["overall", "6", "3", "3", "3", "2"]
    # Items 1 and 4: one of either context.
    assert list(categories[1].values()) == ["c1", "2", "1", "1", "2", "1"]


def test_the_correlation_is_over_categories():
    twelve = [replace(item, label=1) for item in items(12)]
    rows = []
    for place, item in enumerate(twelve):
        category = place % 3
        # All wrong at first; 0, 1 and 2 of four right in the end; flags fall by 0, 1 and 2 of four.
        better = place // 3 < category
        rows.append(
            row(
                item,
                answer_0="0",
                answer_1="1" if better else "0",
                bias_0=5,
                bias_1=1 if better else 5,
            )
        )
    report = summary(twelve, tables(rows), settings(), 1)
    (line,) = cells(report, "correlation")
    assert line["categories"] == "3"
    assert line["r(flagged, ACC)"] == "-1.00"
    # BIAS falls from 1 to 1, .375 and 0.
    assert line["r(BIAS, ACC)"] == "-0.99"
    two = [item for item in twelve if item.category != "c2"]
    kept = [row for row in rows if row["item_id"] in {item.item_id for item in two}]
    names = {table.name for table in summary(two, tables(kept), settings(), 1).tables}
    assert "correlation" not in names and "items" in names


def test_table_2_gives_what_there_is_to_answer():
    golds = [(), ("one",), ("two words",), ("a b c",), ("a b c d e f",), ()]
    six = [replace(ITEM, item_id=f"q{n}", golds=one) for n, one in enumerate(golds)]
    report = summary(six, tables([]), settings(kind="squad"), 1)
    counts = [one["number"] for one in cells(report, "questions")]
    assert counts == ["2", "1", "1", "1", "1"]
    assert cells(report, "questions")[0]["%"] == "33.3"
