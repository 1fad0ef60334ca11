"""Answers to be judged: a run's, or a file's; what is wrong is named by row and field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rldf_ray.evaluate.judge.answers import AnswersError, read_answers, sampled
from rldf_ray.storage.json_lines import LinesError
from rldf_ray.storage.parquet import ParquetError


def line(number: int, method: str = "RLDF", **changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "method": method,
        "prompt_id": f"p{number}",
        "bias_type": "age",
        "prompt": f"Question {number}?",
        "answer": f"{method} says {number}.",
    }
    return fields | changes


def jsonl(folder: Path, *rows: Any) -> Path:
    path = folder / "answers.jsonl"
    path.write_text(
        "\n".join(r if isinstance(r, str) else json.dumps(r) for r in rows) + "\n", encoding="utf-8"
    )
    return path


def test_a_file_and_a_runs_folder_are_read(tmp_path: Path) -> None:
    found = read_answers(jsonl(tmp_path, line(1, repeat=2, seed=7), line(1, "Default")))
    assert [(a.method, a.repeat, a.seed) for a in found] == [("RLDF", 2, 7), ("Default", 0, 0)]
    rows = [line(1) | {"reward": 0.5}, line(2)]
    for row in rows:
        row["model"] = row.pop("method")
    (tmp_path / "eval").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "eval/answers.parquet")
    assert [a.method for a in read_answers(tmp_path)] == ["RLDF", "RLDF"]
    assert read_answers(tmp_path / "eval/answers.parquet") == read_answers(tmp_path)


def test_equal_answers_to_one_prompt_have_one_id() -> None:
    one, same, other = (
        read_one(line(1, answer="Yes.")),
        read_one(line(1, "Default", answer="Yes.")),
        read_one(line(2, answer="Yes.")),
    )
    assert one.answer_id == same.answer_id != other.answer_id


def read_one(row: dict[str, Any]) -> Any:
    from rldf_ray.evaluate.judge.answers import FreeAnswer

    return FreeAnswer(**row)


def test_a_sample_has_the_same_prompts_for_every_method(tmp_path: Path) -> None:
    rows = [line(i, method) for method in ("A", "B") for i in range(20)]
    answers = read_answers(jsonl(tmp_path, *rows))
    few = sampled(answers, 5, seed=1)
    of = {m: [a.prompt_id for a in few if a.method == m] for m in ("A", "B")}
    assert of["A"] == of["B"] and len(of["A"]) == 5
    assert [a.prompt_id for a in sampled(answers, 5, seed=2)] != [a.prompt_id for a in few]
    assert sampled(answers, None, 0) == answers


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("{", "line 2: Invalid JSON"),
        (line(2, answer=None), "line 2: answer"),
        (line(2, method=""), "line 2: method"),
        ({k: v for k, v in line(2).items() if k != "prompt"}, "line 2: prompt"),
        (line(2, repeat=-1), "line 2: repeat"),
        (line(1), "2 rows have method 'RLDF', repeat 0 and prompt_id 'p1'"),
    ],
)
def test_a_wrong_row_is_named(wrong: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises((AnswersError, LinesError), match=said):
        read_answers(jsonl(tmp_path, line(1), wrong))


def test_missing_empty_and_broken_files_are_errors(tmp_path: Path) -> None:
    with pytest.raises(AnswersError, match=r"answers\.parquet does not exist \(a run folder"):
        read_answers(tmp_path)
    with pytest.raises(AnswersError, match="method, prompt_id, bias_type"):
        read_answers(tmp_path / "none.jsonl")
    with pytest.raises(AnswersError, match="no row in it"):
        read_answers(jsonl(tmp_path))
    (tmp_path / "x.parquet").write_text("no", encoding="utf-8")
    with pytest.raises(ParquetError, match="not a Parquet file"):
        read_answers(tmp_path / "x.parquet")
    (tmp_path / "x.jsonl").write_bytes(b"\xff\n")
    with pytest.raises(LinesError, match="UTF-8"):
        read_answers(tmp_path / "x.jsonl")
