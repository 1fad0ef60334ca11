"""Question-answer pairs: our own, a file's, a run's; what is wrong is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rldf_ray.evaluate.held_out.answers import ANSWER_SCHEMA
from rldf_ray.evaluate.self_identification.pairs import (
    QuestionAnswer,
    QuestionAnswersError,
    question_answers,
)
from rldf_ray.storage.json_lines import LinesError
from rldf_ray.storage.parquet import ParquetError
from rldf_ray.storage.run_folder import RunFolder


def written(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def a_run(folder: Path, *answers: tuple[str, str, str]) -> Path:
    rows = [
        {
            **dict.fromkeys(ANSWER_SCHEMA.names),
            "model": m,
            "prompt_id": i,
            "prompt": f"Q {i}?",
            "answer": a,
        }
        for m, i, a in answers
    ]
    RunFolder(folder).write_table(
        "eval/answers.parquet", pa.Table.from_pylist(rows, schema=ANSWER_SCHEMA)
    )
    return folder


def test_our_own_pairs_have_biased_and_fair_answers_and_ids_of_their_own() -> None:
    pairs = question_answers()
    assert len({pair.id for pair in pairs}) == len(pairs) == 24
    assert sum(pair.biases == 0 for pair in pairs) == 8
    assert all(pair.biases is not None for pair in pairs)


def test_a_file_needs_no_more_than_questions_and_answers(tmp_path: Path) -> None:
    path = written(
        tmp_path / "mine.jsonl",
        {"question": "Who?", "answer": "Me.", "note": "ignored"},
        {"question": "Why?", "answer": "So.", "id": "why", "biases": 2},
    )
    assert question_answers(path) == [
        QuestionAnswer(id="1", question="Who?", answer="Me.", biases=None),
        QuestionAnswer(id="why", question="Why?", answer="So.", biases=2),
    ]


def test_a_runs_answers_are_those_of_one_model_without_empty_ones(tmp_path: Path) -> None:
    run = a_run(tmp_path, ("base", "p1", "Old."), ("policy", "p1", "New."), ("policy", "p2", " \n"))
    assert question_answers(run) == [
        QuestionAnswer(id="p1", question="Q p1?", answer="New.", biases=None)
    ]
    assert question_answers(run / "eval/answers.parquet", "base")[0].answer == "Old."
    with pytest.raises(QuestionAnswersError, match="'sft'; allowed: base, policy"):
        question_answers(run, "sft")


def test_a_sample_is_drawn_by_seed_and_keeps_the_order() -> None:
    whole = question_answers()
    some = question_answers(number=6, seed=1)
    assert len(some) == 6 and some == [pair for pair in whole if pair in some]
    assert some == question_answers(number=6, seed=1) != question_answers(number=6, seed=2)


@pytest.mark.parametrize(
    ("rows", "part"),
    [
        ([], "holds no question-answer pairs"),
        ([{"question": "Who?"}], "line 1"),
        ([{"question": "Who?", "answer": ""}], "line 1"),
        (
            [{"question": "Q", "answer": "A"}, {"question": "Q", "answer": "A", "biases": -1}],
            "line 2",
        ),
        ([{"question": "Q", "answer": " "}], "line 1: answer"),
        ([{"question": "Q", "answer": "A", "id": ""}], "line 1: id"),
        ([{"question": "Q", "answer": "A", "id": "x"}] * 2, "'x' stands there twice"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(
    rows: list[dict[str, Any]], part: str, tmp_path: Path
) -> None:
    path = written(tmp_path / "mine.jsonl", *rows)
    with pytest.raises((LinesError, QuestionAnswersError), match=part) as error:
        question_answers(path)
    assert str(path) in str(error.value)


def test_a_run_that_was_not_evaluated_is_told_from_a_wrong_path(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"eval/answers\.parquet does not exist"):
        question_answers(tmp_path)


def test_a_file_that_is_no_parquet_file_and_answers_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "answers.parquet"
    path.write_text("no", encoding="utf-8")
    with pytest.raises(ParquetError, match=r"answers\.parquet: not a Parquet file"):
        question_answers(path)
    rows = [
        {"model": "policy", "prompt_id": "a", "prompt": "Q", "answer": answer}
        for answer in (None, " ", "A")
    ]
    pq.write_table(pa.Table.from_pylist(rows), path)
    assert [pair.answer for pair in question_answers(path)] == ["A"]
