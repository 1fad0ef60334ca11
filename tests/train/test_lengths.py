"""Rows too long to learn anything from are left out, counted, and refused where they are all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset

from rldf_ray.models.chat_template import ChatTemplate
from rldf_ray.train.held_out import read_right
from rldf_ray.train.lengths import (
    RowsUsed,
    TooLongError,
    measured_once,
    rows_used,
    that_differ,
    with_room,
)
from rldf_ray.train.reasons import reason_of
from rldf_ray.train.reward import _encode
from rldf_ray.train.sft import NO_LOSS, encode
from tests.train.tiny import tiny_tokenizer

LONG = " ".join(["w1"] * 30)


def says(role: str, text: str) -> list[dict[str, str]]:
    return [{"role": role, "content": text}]


def pair(prompt: str, chosen: str, rejected: str) -> dict[str, Any]:
    sides = {"chosen": says("assistant", chosen), "rejected": says("assistant", rejected)}
    return {"prompt": says("user", prompt), **sides}


def template() -> ChatTemplate:
    return ChatTemplate(tiny_tokenizer(), "tiny")


def encoded(rows: list[dict[str, Any]], max_length: int) -> Dataset:
    return Dataset.from_list([_encode(row, template(), max_length) for row in rows])


def test_pairs_whose_sides_are_the_same_once_cut_are_left_out() -> None:
    begin_alike = pair("w1", f"{LONG} w2", f"{LONG} w3")
    rows = [pair("w1", "w2", "w3"), pair(LONG, "w2", "w3"), begin_alike]
    kept = that_differ(encoded(rows, 16), "reward.max_length", 16)
    assert kept.to_list() == encoded(rows[:1], 16).to_list()


def test_a_pair_that_was_drawn_again_is_measured_once() -> None:
    rows = [pair("w1", "w2", "w3"), pair("w1", "w3", "w2"), pair("w4", "w2", "w3")]
    drawn = encoded([rows[0], rows[1], rows[0], rows[2], rows[1]], 16)
    kept = measured_once(drawn.add_column("topic_id", ["a", "b", "c", "d", "e"]))
    assert {str(row) for row in kept.remove_columns("topic_id")} == {
        str(row) for row in encoded(rows, 16)
    }
    assert len(kept) == 3


def test_the_reward_model_reads_the_last_message_of_a_side() -> None:
    row = pair("w1", "w2", "w3")
    whole = {**row, **{side: row["prompt"] + row[side] for side in ("chosen", "rejected")}}
    assert encoded([whole], 16).to_list() == encoded([row], 16).to_list()


def test_examples_whose_prompt_leaves_no_room_are_left_out() -> None:
    rows = [
        {"prompt": says("user", prompt), "completion": says("assistant", "w2 w3")}
        for prompt in ("w1", LONG)
    ]
    kept = with_room(Dataset.from_list(rows), template(), "sft.max_length", 16)
    assert kept.to_list() == rows[:1]


def test_an_example_is_kept_where_some_of_its_answer_is_learned() -> None:
    rows = [
        {
            "prompt": says("user", " ".join(["w1"] * words)),
            "completion": says("assistant", "w2 w3"),
        }
        for words in range(1, 14)
    ]
    kept = with_room(Dataset.from_list(rows), template(), "sft.max_length", 16).to_list()
    learned = [row for row in rows if set(encode(row, template())["labels"][:16]) != {NO_LOSS}]
    assert kept == learned
    assert 0 < len(kept) < len(rows)


def test_where_nothing_is_left_the_message_says_what_to_raise() -> None:
    with pytest.raises(TooLongError) as caught:
        that_differ(encoded([pair(LONG, "w2", "w3")] * 3, 16), "reward.max_length", 16)
    message = str(caught.value)
    assert "of 3 pairs none" in message and "raise reward.max_length" in message
    worker = RuntimeError(f"stack\nrldf_ray.train.lengths.TooLongError: {message}\n")
    assert reason_of(worker, "run/sft") == message


def test_what_was_used_is_read_as_it_was_written(tmp_path: Path) -> None:
    rows = RowsUsed(used=8, held_out=2, too_long=3)
    rows.write(tmp_path)
    assert rows_used(tmp_path / "rows.json") == rows
    assert rows_used(tmp_path / "none.json") is None


def test_a_job_says_what_it_learned_from(
    alone: None, folders: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from rldf_ray.train import reward, sft, worker
    from tests.train.tiny import tiny_job

    monkeypatch.setattr(worker, "prepare_worker", lambda job: 0)
    data = tmp_path / "data"
    data.mkdir()
    prompts = [*(f"w{i}" for i in range(8)), LONG, LONG]
    pairs = [{"topic_id": f"t{i}", **pair(p, "w2", "w3")} for i, p in enumerate(prompts)]
    examples = [{"prompt": row["prompt"], "completion": row["chosen"]} for row in pairs]
    pq.write_table(pa.Table.from_pylist(pairs), data / "pairs.parquet")
    pq.write_table(pa.Table.from_pylist(examples), data / "sft.parquet")
    short = ("sft.max_length=16", "reward={max_length: 16, held_out_share: 0.2}")
    for name, loop in (("sft", sft._loop), ("reward", reward._loop)):
        out = tmp_path / f"{name}-job"
        out.mkdir()
        job = tiny_job({**folders, "data": str(data), "out": str(out)}, *short)
        loop({"job": job})
        rows = rows_used(out / "rows.json")
        assert rows is not None and rows.too_long == 2 and rows.used + rows.held_out == 8
        assert (out / "model").is_dir()
        right = read_right(out / "held_out.json")
        assert (right is None) == (name == "sft")
        if right is not None:
            assert sum(number for _, number in right.values()) == rows.held_out
