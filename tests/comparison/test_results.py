"""eval/items.parquet and results.parquet, in the columns that charts and pages read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rldf_ray.comparison.method import Method
from rldf_ray.comparison.method_run import MethodRun
from rldf_ray.comparison.results import (
    ALL,
    ITEM_SCHEMA,
    RESULT_SCHEMA,
    given_rows,
    item_rows,
    result_rows,
)
from rldf_ray.comparison.settings import Settings, plan_with_items, whole_blocks
from rldf_ray.evaluate.bbq.run_models import SCENES, load_items
from rldf_ray.evaluate.bbq.summary import Answer, Evaluation
from rldf_ray.plan import PlanError
from rldf_ray.sets.bbq.data import load_bbq
from rldf_ray.storage.parquet import ParquetError
from tests.fakes import plan_with

ITEMS = load_bbq(SCENES, None, 8)
METHOD_RUN = MethodRun(
    method=Method("cot", "CoT"), repeat=2, seed=7, folder="embedded", weights="embedded"
)


def answers(unknown: bool) -> pa.Table:
    given = {i.key: Answer(i.unknown if unknown else i.label, text="Hm.") for i in ITEMS.items}
    return Evaluation(
        model="CoT", mode="rank", variant="paper", items=ITEMS, answers=given, seed=7
    ).table()


def test_results_have_a_row_for_every_known_figure() -> None:
    table = pa.Table.from_pylist(
        result_rows(METHOD_RUN, ITEMS.items, answers(False)), RESULT_SCHEMA
    )
    assert table.schema.names == [
        "method", "repeat", "seed", "set", "group", "measure", "value", "n",
    ]  # fmt: skip
    rows = table.to_pylist()
    assert {(r["method"], r["repeat"], r["seed"], r["set"]) for r in rows} == {("cot", 2, 7, "bbq")}
    overall = {r["measure"]: (r["value"], r["n"]) for r in rows if r["group"] == ALL}
    assert overall["accuracy"] == (1.0, len(ITEMS.items))
    assert overall["accuracy_amb"] == overall["accuracy_dis"] == (1.0, len(ITEMS.items) // 2)
    # Nothing but "unknown" was said to ambiguous items: there is no s_AMB, and no stand-in for it.
    assert "s_amb" not in overall and "s_dis" in overall
    assert {"Age", "Beauty", "mean of categories"} <= {r["group"] for r in rows}


def test_a_silent_model_is_seen() -> None:
    rows = result_rows(METHOD_RUN, ITEMS.items, answers(True))
    overall = {r["measure"]: r["value"] for r in rows if r["group"] == ALL}
    assert overall["accuracy_amb"] == 1.0 and overall["accuracy_dis"] == 0.0
    assert overall["unknown_share"] == 1.0 and overall["accuracy"] == 0.5
    # It names nobody, so there is no share of right names; a file of answers has no scores.
    assert overall["unknown_dis"] == 1.0
    assert not {"accuracy_named", "unknown_auc", "both_right"} & set(overall)


def test_ranked_answers_have_what_the_threshold_leaves_as_it_is() -> None:
    given = {
        i.key: Answer(i.label, scores=tuple(float(option == i.label) for option in range(3)))
        for i in ITEMS.items
    }
    table = Evaluation(
        model="CoT", mode="rank", variant="paper", items=ITEMS, answers=given, seed=7
    ).table()
    rows = {
        r["measure"]: r for r in result_rows(METHOD_RUN, ITEMS.items, table) if r["group"] == ALL
    }
    for measure in ("unknown_auc", "both_right"):
        assert rows[measure]["value"] == 1.0 and rows[measure]["n"] == len(ITEMS.items)
    assert (rows["unknown_dis"]["value"], rows["accuracy_named"]["value"]) == (0.0, 1.0)


def test_items_have_a_row_each() -> None:
    table = pa.Table.from_pylist(item_rows(METHOD_RUN, answers(False)), ITEM_SCHEMA)
    rows = table.to_pylist()
    assert len({r["item_id"] for r in rows}) == len(ITEMS.items) == len(rows)
    assert all(r["correct"] and r["thought"] == "Hm." for r in rows)
    assert {r["condition"] for r in rows} == {"ambig", "disambig"}


@pytest.mark.parametrize(
    ("items", "categories", "each"), [(240, 11, 24), (240, 6, 40), (4, 5, 4), (21, 5, 8)]
)
def test_items_come_in_whole_blocks_and_never_fewer(items: int, categories: int, each: int) -> None:
    assert whole_blocks(items, categories) == each
    assert each * categories >= items and each % 4 == 0


def test_bbq_has_at_least_240_items_unless_fewer_are_asked_for() -> None:
    plan = plan_with("evaluate.items_per_category=8")
    assert plan_with_items(plan, None, None).evaluate.items_per_category == 8
    assert plan_with_items(plan, str(SCENES), None).evaluate.items_per_category == 48
    whole = plan_with("evaluate.items_per_category=null")
    few = plan_with_items(plan, str(SCENES), 20)
    assert len(load_items(few).items) == 20
    assert plan_with_items(whole, str(SCENES), None).evaluate.items_per_category is None


def test_figures_that_are_no_parquet_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    path.write_text("method,value\n", encoding="utf-8")
    with pytest.raises(ParquetError, match=r"results\.csv: not a Parquet file"):
        given_rows(plan_with(), Settings(figures=(str(path),)), ["cot"])


def test_figures_of_other_evaluations_are_taken_in(tmp_path: Path) -> None:
    row = {"method": "cot", "repeat": 0, "seed": 0, "set": "answers", "group": "age"}
    rows = [
        row | {"measure": "BS", "value": 22.5, "n": 8},
        row | {"measure": "CE", "value": None, "n": 0},
        row | {"method": "other", "measure": "BS", "value": 1.0, "n": 8},
    ]
    path = str(tmp_path / "long.parquet")
    pq.write_table(pa.Table.from_pylist(rows, RESULT_SCHEMA), path)
    assert given_rows(plan_with(), Settings(figures=(path,)), ["cot"]) == rows[:1]
    with pytest.raises(
        PlanError, match=r"it is about \['cot', 'other'\]; needed: some of \['sft'\]"
    ):
        given_rows(plan_with(), Settings(figures=(path,)), ["sft"])
    with pytest.raises(PlanError, match="no such file"):
        given_rows(plan_with(), Settings(figures=(path + "x",)), ["cot"])
    with pytest.raises(
        PlanError, match=r"a second figure for \('cot', 0, 'answers', 'age', 'BS'\)"
    ):
        given_rows(plan_with(), Settings(figures=(path, path)), ["cot"])
    pq.write_table(pa.Table.from_pylist([rows[0] | {"set": "bbq"}], RESULT_SCHEMA), path)
    with pytest.raises(PlanError, match="rows of the set bbq, which the comparison measures"):
        given_rows(plan_with(), Settings(figures=(path,)), ["cot"])
    pq.write_table(pa.table({"method": ["cot"]}), path)
    with pytest.raises(ParquetError, match="no column"):
        given_rows(plan_with(), Settings(figures=(path,)), ["cot"])
