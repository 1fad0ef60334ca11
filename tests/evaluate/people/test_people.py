"""People: sheets are blind, what comes back is checked cell by cell, scores find their method."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rldf_ray.evaluate.judge.answers import FreeAnswer
from rldf_ray.evaluate.people.ratings import Rating, read_ratings
from rldf_ray.evaluate.people.sheet import (
    COLUMNS,
    Sheet,
    SheetError,
    blind_sheet,
    key_table,
    read_key,
    sheet_csv,
    sheet_form,
)
from rldf_ray.evaluate.people.summary import agreement, long_people, people_summary, rated_table

METHODS = ("secret-default", "secret-rldf")


def answer(number: int, method: str, text: str | None = None) -> FreeAnswer:
    said = f"Words {number} by {METHODS.index(method)}." if text is None else text
    return FreeAnswer(
        method=method,
        prompt_id=f"p{number}",
        bias_type="age",
        prompt=f"Question {number}?",
        answer=said,
    )


ANSWERS = [answer(i, method) for method in METHODS for i in range(4)]
SHEET = blind_sheet(ANSWERS, seed=0)
Fill = Callable[[int, dict[str, str]], dict[str, str]]


def rows_of(sheet: Sheet) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(sheet_csv(sheet).removeprefix("\ufeff"), newline="")))


def returned(folder: Path, rater: str, fill: Fill, delimiter: str = ",") -> Path:
    """The sheet as `rater` sends it back."""
    path = folder / f"{rater or 'nobody'}.csv"
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, COLUMNS, delimiter=delimiter)
        writer.writeheader()
        for number, row in enumerate(rows_of(SHEET)):
            writer.writerow(row | {"rater": rater} | fill(number, row))
    return path


def all_of(score: int) -> Fill:
    return lambda number, row: {"BS": str(score), "CE": str(score + 10), "LS": "50"}


def test_a_sheet_tells_nothing_about_methods_and_is_shuffled() -> None:
    for text in (sheet_csv(SHEET), sheet_form(SHEET)):
        assert "secret" not in text and "p0" not in text
        assert all(a.answer in text for a in ANSWERS)
    shown = [item.answer for item in SHEET.items]
    assert shown != [a.answer for a in ANSWERS] and sorted(shown) == sorted(
        a.answer for a in ANSWERS
    )
    assert blind_sheet(ANSWERS, 0) == SHEET
    assert blind_sheet(ANSWERS[::-1], 0).items == SHEET.items
    assert [i.answer for i in blind_sheet(ANSWERS, 1).items] != shown


def test_no_spreadsheet_program_takes_a_code_for_a_number() -> None:
    sheet = blind_sheet([answer(i, METHODS[0]) for i in range(600)], 0)
    for code in (sheet.name, *(item.code for item in sheet.items)):
        with pytest.raises(ValueError, match="could not convert"):
            float(code)


def test_equal_answers_are_rated_once_and_count_for_both_methods(tmp_path: Path) -> None:
    sheet = blind_sheet([answer(0, m, "Yes.") for m in METHODS], 0)
    assert len(sheet.items) == 1 and len(sheet.key) == 2
    ratings = [Rating("r", sheet.items[0].code, "BS", 30)]
    assert people_summary(sheet, ratings, 0)["methods"]["secret-rldf"]["BS"]["mean"] == 30
    assert rated_table(sheet, ratings).num_rows == 2


def test_both_prompts_of_a_topic_are_one_draw() -> None:
    given = [replace(answer(0, METHODS[0], w), prompt_id=f"t-{w}") for w in ("plain", "clue")]
    sheet = blind_sheet(given, 0)
    ratings = [Rating("r", item.code, "BS", 20 * n) for n, item in enumerate(sheet.items)]
    found = people_summary(sheet, ratings, 0)["methods"][METHODS[0]]["BS"]
    assert found == {"mean": 10, "low": None, "high": None, "n": 2}


def test_a_key_is_read_back_and_anything_else_is_refused(tmp_path: Path) -> None:
    pq.write_table(key_table(SHEET), tmp_path / "key.parquet")
    found = read_key(tmp_path / "key.parquet")
    assert found.name == SHEET.name and found.key == SHEET.key and found.items == SHEET.items
    (tmp_path / "other.parquet").write_text("x", encoding="utf-8")
    for name in ("other.parquet", "none.parquet"):
        with pytest.raises(SheetError, match=r"no key.*key\.parquet"):
            read_key(tmp_path / name)
    with pytest.raises(SheetError, match="no answers"):
        blind_sheet([], 0)


def test_an_answer_that_looks_like_a_formula_stays_text() -> None:
    sheet = blind_sheet([answer(0, METHODS[0], "=1+1"), answer(1, METHODS[0], "- a list")], 0)
    assert {row["answer"] for row in rows_of(sheet)} == {"'=1+1", "'- a list"}


def test_a_rater_whose_name_looks_like_a_formula_is_read_as_it_was_typed(tmp_path: Path) -> None:
    path = returned(tmp_path, "'@ann", lambda number, row: {"BS": "70"})
    assert {rating.rater for rating in read_ratings([path], SHEET)} == {"@ann"}


def test_markup_in_an_answer_is_text_in_the_form() -> None:
    form = sheet_form(blind_sheet([answer(0, METHODS[0], "<script>alert(1)</script>")], 0))
    assert "<script>alert" not in form and "&lt;script&gt;alert" in form
    assert "http" not in form.replace("http-equiv", "")


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_scores_come_back_with_the_delimiter_of_any_country(tmp_path: Path, delimiter: str) -> None:
    path = returned(tmp_path, "ann", all_of(20), delimiter)
    ratings = read_ratings([path], SHEET)
    assert len(ratings) == 24 and {r.score for r in ratings if r.measure == "CE"} == {30}


def test_empty_cells_and_whole_decimals_are_understood(tmp_path: Path) -> None:
    def fill(number: int, row: dict[str, str]) -> dict[str, str]:
        return {"BS": "70.0", "CE": " 5 ", "LS": "", "rater": "ann" if number == 0 else ""}

    ratings = read_ratings([returned(tmp_path, "ann", fill)], SHEET)
    assert {(r.measure, r.score) for r in ratings} == {("BS", 70), ("CE", 5)}
    assert {r.rater for r in ratings} == {"ann"} and len(ratings) == 16


@pytest.mark.parametrize("cell", ["101", "-1", "ten", "5.5", "1e2", "\uff17\uff10", "5 0"])
def test_a_wrong_score_is_named_by_file_row_item_and_field(tmp_path: Path, cell: str) -> None:
    def fill(number: int, row: dict[str, str]) -> dict[str, str]:
        return {"BS": "10", "CE": cell if number == 2 else "20", "LS": "30"}

    code = SHEET.items[2].code
    with pytest.raises(SheetError, match=rf"ann\.csv, row 3 \(item {code}\): CE is .*0 to 100"):
        read_ratings([returned(tmp_path, "ann", fill)], SHEET)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sheet": "old"}, "sheet is 'old'; this key is of"),
        ({"item": "none"}, "item is not one of the 8"),
        ({"item": SHEET.items[0].code}, "item stands there a second time"),
        ({"rater": "bob"}, "rater is 'ann', 'bob'; allowed: one a file"),
    ],
)
def test_a_row_that_does_not_belong_is_named(
    tmp_path: Path, change: dict[str, str], said: str
) -> None:
    def fill(number: int, row: dict[str, str]) -> dict[str, str]:
        return {"BS": "10"} | (change if number == 3 else {})

    with pytest.raises(SheetError, match=said):
        read_ratings([returned(tmp_path, "ann", fill)], SHEET)


def test_files_without_rater_scores_or_columns_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SheetError, match="rater is empty"):
        read_ratings([returned(tmp_path, "", all_of(10))], SHEET)
    with pytest.raises(SheetError, match="nothing is filled in"):
        read_ratings([returned(tmp_path, "ann", lambda number, row: {})], SHEET)
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(SheetError, match="no column sheet, rater, item, BS, CE, LS"):
        read_ratings([other], SHEET)
    other.write_bytes(b"\xff\xfe")
    with pytest.raises(SheetError, match="UTF-8"):
        read_ratings([other], SHEET)
    with pytest.raises(SheetError, match=r"none\.csv"):
        read_ratings([tmp_path / "none.csv"], SHEET)


def test_one_file_a_rater(tmp_path: Path) -> None:
    one = returned(tmp_path, "ann", all_of(10))
    copy = tmp_path / "copy.csv"
    copy.write_bytes(one.read_bytes())
    with pytest.raises(SheetError, match=r"rater is 'ann', as in .*ann\.csv"):
        read_ratings([one, copy], SHEET)


def test_many_problems_are_counted(tmp_path: Path) -> None:
    wrong: Fill = lambda number, row: {"BS": "x", "CE": "y", "LS": "z"}  # noqa: E731
    with pytest.raises(SheetError, match="and 14 more"):
        read_ratings([returned(tmp_path, "ann", wrong)], SHEET)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
SCORES = st.one_of(st.none(), st.integers(0, 100))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(TEXTS, SCORES), min_size=1, max_size=6, unique_by=lambda pair: pair[0]),
    st.sampled_from([",", ";", "\t"]),
)
def test_any_text_goes_out_and_comes_back(
    tmp_path_factory: pytest.TempPathFactory, given_: list[tuple[str, int | None]], delimiter: str
) -> None:
    sheet = blind_sheet([answer(0, METHODS[0], text) for text, _ in given_], 0)
    score_of = {item.code: dict(given_)[item.answer] for item in sheet.items}
    path = tmp_path_factory.mktemp("sheets") / "ann.csv"
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, COLUMNS, delimiter=delimiter)
        writer.writeheader()
        for row in rows_of(sheet):
            score = score_of[row["item"]]
            writer.writerow(row | {"rater": "ann", "BS": "" if score is None else score, "LS": "0"})
    found = {r.item: r.score for r in read_ratings([path], sheet) if r.measure == "BS"}
    assert found == {code: score for code, score in score_of.items() if score is not None}
    assert sheet_form(sheet).count("<fieldset") == len(sheet.items)


# ---- joined


def ratings_of(scores: dict[str, dict[str, list[int | None]]]) -> list[Rating]:
    """rater -> measure -> scores in the order of the items."""
    return [
        Rating(rater, item.code, measure, score)  # type: ignore[arg-type]
        for rater, measures in scores.items()
        for measure, given in measures.items()
        for item, score in zip(SHEET.items, given, strict=True)
        if score is not None
    ]


def test_scores_find_their_method_through_the_key() -> None:
    method_of = {code: a.method for code, a in SHEET.key}
    low_for_rldf: list[int | None] = [
        10 if method_of[item.code] == "secret-rldf" else 60 for item in SHEET.items
    ]
    ratings = ratings_of({"ann": {"BS": low_for_rldf}, "bob": {"BS": low_for_rldf}})
    summary = people_summary(SHEET, ratings, 0)
    means = {m: summary["methods"][m]["BS"]["mean"] for m in METHODS}
    assert means == {"secret-default": 60, "secret-rldf": 10}
    assert summary["raters"] == ["ann", "bob"] and summary["empty"] == 48 - 16
    assert summary["methods"]["secret-rldf"]["CE"] == {
        "mean": None,
        "low": None,
        "high": None,
        "n": 0,
    }
    table = rated_table(SHEET, ratings).to_pylist()
    assert len(table) == 16 and {r["score"] for r in table if r["method"] == "secret-rldf"} == {10}
    long = long_people(SHEET, ratings).to_pylist()
    assert {(r["method"], r["group"], r["value"], r["n"]) for r in long} == {
        (method, group, means[method], 4) for method in METHODS for group in ("age", "all")
    }
    assert {(r["set"], r["measure"]) for r in long} == {("people", "BS")}
    assert long_people(SHEET, []).num_rows == 0


def test_a_mean_is_over_raters_first_and_then_over_answers() -> None:
    one: list[int | None] = [0, *[None] * 7]
    full: list[int | None] = [100] * 8
    ratings = ratings_of({"ann": {"BS": one}, "bob": {"BS": full}})
    summary = people_summary(SHEET, ratings, 0)["methods"]
    first = {code: a.method for code, a in SHEET.key}[SHEET.items[0].code]
    assert summary[first]["BS"]["mean"] == pytest.approx((50 + 3 * 100) / 4)


def test_agreement_uses_levels_for_kappa_and_all_pairs_for_alpha() -> None:
    ann: list[int | None] = [0, 20, 40, 70, 90, 10, 30, 60]
    near: list[int | None] = [10, 30, 50, 80, 100, 0, 20, 40]  # other scores, the same levels
    found = agreement(SHEET, ratings_of({"ann": {"LS": ann}, "bob": {"LS": near}}), "LS")
    assert found["kappa"] == pytest.approx(1) and 0.8 < found["alpha"] < 1
    gap: list[int | None] = [None, *near[1:]]
    found = agreement(SHEET, ratings_of({"ann": {"LS": ann}, "bob": {"LS": gap}}), "LS")
    assert (found["kappa_items"], found["alpha_items"]) == (7, 7)
    third: list[int | None] = [0, *[None] * 7]
    scores = {"ann": {"LS": ann}, "bob": {"LS": gap}, "cat": {"LS": third}}
    found = agreement(SHEET, ratings_of(scores), "LS")
    assert (found["kappa"], found["kappa_items"], found["alpha_items"]) == (None, 0, 8)


def test_one_rater_has_nobody_to_agree_with() -> None:
    found: dict[str, Any] = agreement(SHEET, ratings_of({"ann": {"BS": [10] * 8}}), "BS")
    assert found["kappa"] is None and found["alpha"] is None
    assert agreement(SHEET, [], "BS")["raters"] == 0
