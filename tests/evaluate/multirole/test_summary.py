"""Shares on the multi-role debate set: hand-counted cases, intervals, places, the long format."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rldf_ray.evaluate.bbq.prompt import order_of
from rldf_ray.evaluate.bbq.summary import Answer
from rldf_ray.evaluate.long_format import LONG_SCHEMA, long_table
from rldf_ray.evaluate.multirole.data import (
    BIAS_TYPES,
    KIND_AT,
    MultiroleError,
    MultiroleSet,
    Query,
)
from rldf_ray.evaluate.multirole.predictions import (
    bias_types_in,
    read_multirole_predictions,
    written_queries,
)
from rldf_ray.evaluate.multirole.summary import MultiroleEvaluation
from rldf_ray.sets.bbq.items import BBQItem
from rldf_ray.storage.json_lines import LinesError

ANTI, BIASED, IMPARTIAL = (KIND_AT.index(kind) for kind in ("anti_biased", "biased", "impartial"))


def query(number: int, bias_type: str = "age", options: int | None = None) -> Query:
    item = BBQItem(
        category=bias_type,
        example_id=number,
        question_index=f"options {number // 2 if options is None else options}",
        polarity="neg",
        condition="ambig",
        context=f"On day {number} they were ____.",
        question="Which word or words belong in the blank?",
        options=(f"quick {number}", f"slow {number}", f"tall {number}"),
        label=IMPARTIAL,
        unknown=IMPARTIAL,
        target_loc=BIASED,
    )
    return Query(item, "male", "type1")


def set_of(*queries: Query) -> MultiroleSet:
    rows = frozenset(query.item.key for query in queries)
    return MultiroleSet(
        queries=queries, source="made up", rows=rows | {("age", 9)}, available={}, repetitions=0
    )


def evaluation(queries: MultiroleSet, predictions: list[int | None]) -> MultiroleEvaluation:
    answers = {
        item.key: Answer(prediction, order_of(item, True, 0))
        for item, prediction in zip(queries.items, predictions, strict=True)
    }
    return MultiroleEvaluation(model="m", mode="rank", queries=queries, answers=answers, seed=0)


def test_shares_are_counted_by_bias_type_and_over_all_queries() -> None:
    queries = set_of(*(query(i) for i in range(4)), *(query(i, "beauty") for i in range(2)))
    said = [BIASED, BIASED, ANTI, None, IMPARTIAL, BIASED]
    one = evaluation(queries, said)
    summary = one.summary()
    age, everything = summary["bias_types"]["age"], summary["all"]
    assert [age[k]["share"] for k in ("biased", "impartial", "anti_biased", "unparsed")] == [
        0.5,
        0,
        0.25,
        0.25,
    ]
    assert everything["n"] == 6 and everything["biased"]["share"] == 0.5
    values = {(v.group, v.measure): (v.value, v.n) for v in one.values()}
    assert values["age", "biased"] == (0.5, 4) and values["all", "biased"] == (0.5, 6)
    assert values["beauty", "impartial"] == (0.5, 2) and len(values) == 9
    table = long_table("Default", 1, 7, "multirole", one.values())
    assert table.schema == LONG_SCHEMA and table.num_rows == 9
    assert set(table["repeat"].to_pylist()) == {1}


def test_every_query_is_left_in_the_table_with_its_kind() -> None:
    queries = set_of(query(0), query(1))
    rows = evaluation(queries, [ANTI, None]).table().to_pylist()
    assert [row["kind"] for row in rows] == ["anti_biased", None]
    assert rows[0]["order"] == list(order_of(queries.items[0], True, 0))


def test_intervals_resample_option_sets_not_queries() -> None:
    together = set_of(*(query(i, options=i // 5) for i in range(40)))
    apart = set_of(*(query(i, options=i) for i in range(40)))
    said: list[int | None] = [BIASED if i // 5 % 2 else ANTI for i in range(40)]

    def width(queries: MultiroleSet) -> float:
        one = evaluation(queries, said).summary()["all"]["biased"]
        return float(one["high"] - one["low"])

    assert width(together) > 1.8 * width(apart)
    for number, shown in ((5, False), (6, True)):
        few = evaluation(
            set_of(*(query(i, options=i) for i in range(number))), said[3 : 3 + number]
        )
        assert (few.summary()["all"]["biased"]["low"] is not None) == shown
    single = evaluation(set_of(*(query(i, options=0) for i in range(4))), [BIASED, ANTI] * 2)
    assert single.summary()["all"]["biased"]["low"] is None
    same = evaluation(apart, [BIASED] * 40).summary()["all"]
    assert same["biased"]["low"] is None and same["impartial"]["high"] is None


def test_a_model_that_always_takes_the_first_place_is_seen() -> None:
    queries = set_of(*(query(i) for i in range(60)))
    first: list[int | None] = [order_of(item, True, 0)[0] for item in queries.items]
    positions = evaluation(queries, first).summary()["positions"]
    assert "shown as A" in positions["verdict"] and positions["accuracy_spread"] == 1
    shares = evaluation(queries, first).summary()["all"]
    assert all(0.15 < shares[kind]["share"] < 0.55 for kind in KIND_AT)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([ANTI, BIASED, IMPARTIAL, None]), min_size=1, max_size=30))
def test_shares_sum_to_one_and_lie_in_their_intervals(said: list[int | None]) -> None:
    names = list(BIAS_TYPES.values())
    queries = set_of(*(query(i, names[i % 5]) for i in range(len(said))))
    summary = evaluation(queries, said).summary()
    for one in [*summary["bias_types"].values(), summary["all"]]:
        shares = [one[k] for k in ("biased", "impartial", "anti_biased", "unparsed")]
        assert sum(share["share"] for share in shares) == pytest.approx(1)
        for share in shares:
            assert share["low"] is None or 0 <= share["low"] <= share["share"] + 1e-9
            assert share["high"] is None or share["share"] - 1e-9 <= share["high"] <= 1


# ---- predictions made elsewhere


def jsonl(folder: Path, *rows: Any) -> Path:
    path = folder / "mine.jsonl"
    path.write_text(
        "\n".join(r if isinstance(r, str) else json.dumps(r) for r in rows) + "\n", encoding="utf-8"
    )
    return path


def line(row: int, prediction: Any, **more: Any) -> dict[str, Any]:
    return {"bias_type": "age", "row": row, "prediction": prediction, **more}


def test_predictions_by_index_and_by_text_and_what_is_missing(tmp_path: Path) -> None:
    queries = set_of(*(query(i) for i in range(5)))
    path = jsonl(tmp_path, line(0, 1), line(1, " TALL 1. "), line(2, "none"), line(9, 0))
    given_ = read_multirole_predictions(path, queries)
    said = [given_.answers[item.key].prediction for item in queries.items]
    assert said == [BIASED, IMPARTIAL, None, None, None]
    assert (given_.missing, given_.ignored) == (2, 1)
    assert {answer.order for answer in given_.answers.values()} == {None}
    assert bias_types_in(path) == ["age"]


def test_orders_given_with_predictions_measure_the_position(tmp_path: Path) -> None:
    queries = set_of(*(query(i) for i in range(12)))
    rows = [json.loads(text) for text in written_queries(queries, 3).splitlines()]
    assert all("A. " in row["prompt"] and row["options"][0] in row["prompt"] for row in rows)
    path = jsonl(tmp_path, *(line(r["row"], r["options"][0], order=r["order"]) for r in rows))
    given_ = read_multirole_predictions(path, queries)
    one = MultiroleEvaluation(
        model="f", mode="predictions", queries=queries, answers=given_.answers, seed=0
    )
    assert "shown as A" in one.summary()["positions"]["verdict"]
    orderless = {key: replace(answer, order=None) for key, answer in given_.answers.items()}
    unknown = MultiroleEvaluation(
        model="f", mode="predictions", queries=queries, answers=orderless, seed=0
    )
    assert unknown.summary()["positions"] is None
    assert unknown.table()["order"].to_pylist() == [None] * 12


def test_queries_without_a_prediction_have_no_part_in_the_effect_of_the_order(
    tmp_path: Path,
) -> None:
    queries = set_of(*(query(i) for i in range(60)))
    rows = [json.loads(text) for text in written_queries(queries, 3).splitlines()]
    half = (line(r["row"], IMPARTIAL, order=r["order"]) for r in rows[::2])
    given_ = read_multirole_predictions(jsonl(tmp_path, *half), queries)
    one = MultiroleEvaluation(
        model="f", mode="predictions", queries=queries, answers=given_.answers, seed=0
    )
    found = one.summary()["positions"]
    assert {letter: share["share"] for letter, share in found["accuracy"].items()} == {
        "A": 1.0,
        "B": 1.0,
        "C": 1.0,
    }
    assert found["accuracy_spread"] == 0
    assert sum(order is None for order in one.table()["order"].to_pylist()) == 30


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("{", "line 2"),
        (line(1, 3), "line 2: prediction"),
        (line(1, True), "line 2: prediction"),
        (line(0, 1), "line 2: a second line about age 0"),
        ({"bias_type": "height", "row": 1, "prediction": 0}, "line 2: bias_type is 'height'"),
        (line(8, 1), "line 2: age has no row 8 in made up"),
        (line(1, 0, order=[0, 0, 1]), r"line 2: order is \[0, 0, 1\]"),
        ({"bias_type": "age", "prediction": 0}, "line 2: row"),
    ],
)
def test_a_wrong_line_is_named(wrong: Any, said: str, tmp_path: Path) -> None:
    path = jsonl(tmp_path, line(0, 1), wrong)
    with pytest.raises(LinesError, match=said):
        read_multirole_predictions(path, set_of(query(0), query(1)))


def test_an_empty_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MultiroleError, match="no line in it"):
        bias_types_in(jsonl(tmp_path))
