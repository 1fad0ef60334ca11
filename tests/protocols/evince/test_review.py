"""The review sheet: out, filled in, in again; the remediation report beside it."""

import csv
import io
import json
from dataclasses import replace

import pytest

from rldf_ray.errors import UserError
from rldf_ray.protocols.evince import review
from rldf_ray.protocols.evince.case import entries, remediation_table
from rldf_ray.protocols.evince.page import remediation_page, sheet_page
from rldf_ray.protocols.evince.results import Results
from tests.protocols.evince.script import FIVE, ITEM, Script, held, settings, turn
from tests.protocols.evince.tables import tables_of

TURNS = {
    "A1": turn(60, 20, 20, 0, 0, label="negative", quote="a scandal"),
    "B1": turn(0, 10, 80, 10, 0),
    "A2": turn(0, 10, 80, 10, 0),
    "B2": turn(0, 10, 80, 10, 0),
}
PLAIN = replace(ITEM, item_id="t2", text_id="t2", given={}, title="=cmd|x")


@pytest.fixture
async def results():
    script = Script(
        {
            **TURNS,
            "one shot": {
                "reason": "r",
                "distribution": turn(0, 0, 99, 1, 0)["distributions"]["the text"],
            },
        }
    )
    first = await held(script)
    quiet = await held(script, PLAIN)
    failing = replace(ITEM, item_id="t3", text_id="t3")
    failed = await held(Script({"A1": "no", "A1 again": "no"}), failing)
    return Results(
        items={item.item_id: item for item in (ITEM, PLAIN, failing)},
        tables=tables_of(first, quiet, failed),
        settings=settings(),
        scale=FIVE,
        seed=7,
    )


def sheet(results, **filled):
    rows = list(review.sheet_rows(results, every=True))
    for row in rows:
        row.update(filled.get(row["item_id"], {}))
    return review.sheet_text(rows)


def test_the_sheet_has_what_a_person_must_look_at(results):
    rows = list(csv.DictReader(io.StringIO(review.sheet_text(review.sheet_rows(results)))))
    assert [row["item_id"] for row in rows] == [ITEM.item_id, "t3"]
    assert rows[0]["given"] == "ann: negative; ben: neutral"
    assert rows[0]["review"] == "label moves"
    assert rows[0]["proposed"] == "show both with a note"
    assert "A1.1 (negative): It reports." in rows[0]["arguments"]
    assert all(row[name] == "" for row in rows for name in review.BLANK)


def test_cells_that_a_spreadsheet_would_compute_are_made_text(results):
    rows = list(csv.DictReader(io.StringIO(sheet(results))))
    assert rows[1]["title"] == "'=cmd|x"


@pytest.mark.parametrize(
    ("filled", "final"),
    [
        ({"decision": "Keep"}, ["negative", "neutral"]),
        ({"decision": "change"}, ["neutral"]),
        ({"decision": "change", "change_to": "weakly negative"}, ["weakly negative"]),
        ({"decision": "show  both"}, ["negative", "neutral"]),
        ({"reject": "A2.1, B2.1"}, ["neutral"]),
    ],
)
def test_decisions(results, tmp_path, filled, final):
    path = tmp_path / "s.csv"
    path.write_text(sheet(results, **{ITEM.item_id: {**filled, "person": "eve"}}), encoding="utf-8")
    (row,) = review.decide(review.read_sheet(path, results), results)
    assert row["final"] == final
    assert row["person"] == "eve"


def test_the_same_sheet_twice_changes_nothing_and_a_later_one_replaces(results, tmp_path):
    path = tmp_path / "s.csv"
    path.write_text(sheet(results, **{ITEM.item_id: {"decision": "keep"}}), encoding="utf-8")
    first = review.decide(review.read_sheet(path, results), results)
    order = list(results.items)
    once = review.merged([], first, order)
    assert (
        review.merged(once, review.decide(review.read_sheet(path, results), results), order) == once
    )
    path.write_text(
        sheet(results, **{ITEM.item_id: {"decision": "change"}, "t3": {"decision": "keep"}}),
        encoding="utf-8",
    )
    later = review.merged(once, review.decide(review.read_sheet(path, results), results), order)
    assert [(row["item_id"], row["final"]) for row in later] == [
        (ITEM.item_id, ["neutral"]),
        ("t3", ["negative", "neutral"]),
    ]


@pytest.mark.parametrize(
    ("item", "filled", "words"),
    [
        ("t2", {"decision": "keep"}, "came without a label"),
        ("t2", {"decision": "maybe"}, "decision is 'maybe'; allowed: keep, change, show both"),
        ("t2", {"decision": "change", "change_to": "blue"}, "change_to is 'blue'; allowed"),
        ("t2", {"decision": "keep", "change_to": "neutral"}, "decision is not change"),
        ("t2", {"reject": "A9.1"}, "reject names 'A9.1'; the dialogue has A1.1"),
        ("t2", {"decision": "show both"}, "came without a label; allowed: change"),
        ("t3", {"decision": "show both"}, "the dialogue has no label; allowed: keep, or change"),
    ],
)
def test_what_cannot_be_is_refused_with_its_line(results, tmp_path, item, filled, words):
    path = tmp_path / "s.csv"
    path.write_text(sheet(results, **{item: filled}), encoding="utf-8")
    with pytest.raises(UserError, match=words):
        review.read_sheet(path, results)
    with pytest.raises(UserError, match=r"s\.csv, line \d+"):
        review.read_sheet(path, results)


def test_without_any_argument_both_sides_weigh_half(results, tmp_path):
    path = tmp_path / "s.csv"
    made = [row["argument_id"] for row in results.arguments[ITEM.item_id, "main"]]
    path.write_text(sheet(results, **{ITEM.item_id: {"reject": " ".join(made)}}), encoding="utf-8")
    (row,) = review.decide(review.read_sheet(path, results), results)
    assert row["distribution_again"] == pytest.approx((0, 0.1, 0.8, 0.1, 0))
    last = results.rounds[ITEM.item_id, "main"][-1]
    assert (last["a"][0], last["b"][0]) == ([0, 0.1, 0.8, 0.1, 0], [0, 0.1, 0.8, 0.1, 0])


def test_a_decision_can_be_withdrawn(results, tmp_path):
    path = tmp_path / "s.csv"
    path.write_text(sheet(results, **{ITEM.item_id: {"decision": "keep"}}), encoding="utf-8")
    once = review.merged(
        [], review.decide(review.read_sheet(path, results), results), results.items
    )
    path.write_text(sheet(results, **{ITEM.item_id: {"decision": "withdraw"}}), encoding="utf-8")
    now = review.decide(review.read_sheet(path, results), results)
    assert review.merged(once, now, results.items) == []


def test_a_label_that_a_spreadsheet_would_compute_comes_back(results, tmp_path):
    path = tmp_path / "s.csv"
    path.write_text(
        sheet(results, **{ITEM.item_id: {"decision": "keep", "reason": "- not so"}}),
        encoding="utf-8",
    )
    (one,) = review.read_sheet(path, results)
    assert one.reason == "- not so"


def test_a_failed_dialogue_cannot_be_changed_to_nothing(results, tmp_path):
    path = tmp_path / "s.csv"
    path.write_text(sheet(results, t3={"decision": "change"}), encoding="utf-8")
    with pytest.raises(UserError, match="say to what, as the dialogue has no label"):
        review.read_sheet(path, results)


def test_rows_without_anything_in_them_are_skipped(results, tmp_path):
    path = tmp_path / "s.csv"
    text = sheet(results, **{ITEM.item_id: {"decision": "keep"}})
    blank = "," * (len(review.COLUMNS) - 1)
    path.write_text(f"{text}{blank}\n{blank}\n", encoding="utf-8")
    assert [one.item_id for one in review.read_sheet(path, results)] == [ITEM.item_id]


def test_a_sheet_of_another_study_is_refused(results, tmp_path):
    path = tmp_path / "s.csv"
    text = sheet(results).replace("t3", "t9")
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match="'t9' is no dialogue of this study"):
        review.read_sheet(path, results)
    path.write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(UserError, match="no column 'item_id'"):
        review.read_sheet(path, results)


def test_the_report_and_its_table(results, tmp_path):
    path = tmp_path / "s.csv"
    path.write_text(
        sheet(results, **{ITEM.item_id: {"decision": "keep", "person": "<b>eve"}}), encoding="utf-8"
    )
    decisions = review.decide(review.read_sheet(path, results), results)
    found = entries(results, decisions)
    page = remediation_page(results, found, "three texts")
    assert "show both with a note" in page
    assert "&lt;b&gt;eve" in page and "<b>eve" not in page
    assert "<polyline" in page
    table = remediation_table(found).to_pylist()
    assert [row["item_id"] for row in table] == list(results.items)
    assert table[0]["final"] == ["negative", "neutral"]
    assert dict(table[0]["distances"]) == {"ann": 2.0, "ben": 0.0}
    assert json.loads(table[0]["findings"])[0]["kind"] == "language"
    assert table[2]["status"] == "failed"
    # No page calls a middle label a correct one.
    for before in page.split("correct")[:-1]:
        assert "no label" in before[-40:]


def test_the_form_holds_its_rows_safely(results):
    page = sheet_page(results, "three </script> texts")
    assert "</script> texts" not in page
    assert page.count("<fieldset") == 2
    # What failed has no label of its own to show.
    assert page.count("<option>keep</option>") == 2
    assert page.count("<option>show both</option>") == 1
    # What it saves begins with the mark of UTF-8, as some spreadsheet programs need it.
    assert r'new Blob(["\ufeff" + lines' in page
