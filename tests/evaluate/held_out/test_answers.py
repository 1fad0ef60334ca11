"""Which held-out prompts are answered freely."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rldf_ray.evaluate.held_out.answers import held_out_rows


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
