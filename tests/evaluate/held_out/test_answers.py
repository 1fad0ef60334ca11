"""Which held-out prompts are answered freely, and what the rewards of the answers come to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from rldf_ray.dataset.preference_data import prompts_table
from rldf_ray.evaluate.held_out.answers import ANSWER_SCHEMA, held_out_rows, reward_summary
from tests.fakes import judgement


def row(bias_type: str, number: int, split: str = "eval") -> dict[str, Any]:
    return {"prompt_id": f"{bias_type}-{number:02}", "bias_type": bias_type, "split": split}


ROWS = [
    *(row("age", n) for n in range(9, 0, -1)),
    *(row("beauty", n) for n in range(20, 30)),
    row("religion", 40),
    row("profession", 0, split="ppo"),
]


def test_few_prompts_are_of_all_bias_types() -> None:
    assert [r["bias_type"] for r in held_out_rows(ROWS, 3)] == ["age", "beauty", "religion"]
    assert Counter(r["bias_type"] for r in held_out_rows(ROWS, 7)) == {
        "age": 3,
        "beauty": 3,
        "religion": 1,
    }


def test_more_prompts_begin_with_the_fewer_ones() -> None:
    everything = held_out_rows(ROWS, None)
    assert len(everything) == 20 and all(r["split"] == "eval" for r in everything)
    assert held_out_rows(ROWS[::-1], 7) == everything[:7] == held_out_rows(ROWS, 7)


def test_within_a_bias_type_the_hash_decides() -> None:
    ages = [r["prompt_id"] for r in held_out_rows(ROWS, None) if r["bias_type"] == "age"]
    assert ages == sorted(ages)


@pytest.mark.parametrize("types", [1, 2, 5, 12])
def test_few_prompts_are_scenes_with_their_clue_and_without(types: int) -> None:
    topics = [
        judgement(number, f"type{place:02}", split="eval", topic_id=f"type{place:02}-{number}")
        for place in range(types)
        for number in range(4)
    ]
    rows = prompts_table(topics).to_pylist()
    for most in range(1, len(rows) + 1):
        shown = [row["clue_shown"] for row in held_out_rows(rows, most)]
        assert len(shown) == most and abs(most - 2 * sum(shown)) <= 1
    assert held_out_rows(rows[::-1], None) == held_out_rows(rows, None)


def test_a_scenes_two_prompts_come_one_after_the_other() -> None:
    topics = [judgement(number, split="eval") for number in range(4)]
    found = held_out_rows(prompts_table(topics).to_pylist(), None)
    assert [row["topic_id"] for row in found[::2]] == [row["topic_id"] for row in found[1::2]]


def test_a_scenes_two_prompts_are_one_draw() -> None:
    """Rewards of a scene with its clue and without: standing there twice they say no more."""

    def table(ends: Sequence[str]) -> pa.Table:
        rows = [
            {"model": "policy", "prompt_id": f"age-{i}-{end}", "bias_type": "age",
             "kind": "judgement", "clue_shown": end == "clue", "prompt": "Who?",
             "answer": "Nobody.", "reward": float(i % 5), "finish_reason": "stop", "tokens": 3}
            for i in range(20) for end in ends
        ]  # fmt: skip
        return pa.Table.from_pylist(rows, schema=ANSWER_SCHEMA)

    once, twice = (
        reward_summary(table(ends), "policy", 0) for ends in (("plain",), ("plain", "clue"))
    )
    assert once is not None and twice == once | {"n": 40}
