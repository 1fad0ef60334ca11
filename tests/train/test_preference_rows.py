"""What DPO and KTO are given of the pairs: the chats of SFT and PPO, cut as SFT's are."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.models.chat_template import ChatTemplate
from rldf_ray.plan import KTOSection
from rldf_ray.train.likelihoods import collating
from rldf_ray.train.preference_rows import (
    answers_of,
    columns_of,
    encode_pair,
    in_batches,
    weights_of,
)
from rldf_ray.train.sft import NO_LOSS, encode
from tests.train.tiny import WORDS, tiny_tokenizer

TEMPLATE = ChatTemplate(tiny_tokenizer())
words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=9).map(" ".join)
ids = st.lists(st.integers(3, 9), min_size=1, max_size=3)
encoded = st.lists(
    st.fixed_dictionaries({"prompt_ids": ids, "chosen_ids": ids, "rejected_ids": ids}), max_size=12
)


def pair(prompt: str, chosen: str, rejected: str) -> dict[str, Any]:
    return {
        "prompt": [{"role": "user", "content": prompt}],
        "chosen": [{"role": "assistant", "content": chosen}],
        "rejected": [{"role": "assistant", "content": rejected}],
    }


@given(words, words, words)
def test_a_pairs_sides_are_the_chats_of_sft_after_the_prompt_of_an_engine(
    prompt: str, chosen: str, rejected: str
) -> None:
    row = pair(prompt, chosen, rejected)
    found = encode_pair(row, TEMPLATE, 1024)
    assert found["prompt_ids"] == TEMPLATE.prompt_ids(row["prompt"])
    for side in ("chosen", "rejected"):
        sft = encode({"prompt": row["prompt"], "completion": row[side]}, TEMPLATE)
        assert [*found["prompt_ids"], *found[f"{side}_ids"]] == sft["input_ids"]
        assert found[f"{side}_ids"] == [i for i in sft["labels"] if i != NO_LOSS]


@given(words, words, words, st.integers(1, 30))
def test_a_pair_is_cut_on_the_right(prompt: str, chosen: str, rejected: str, most: int) -> None:
    whole, cut = (encode_pair(pair(prompt, chosen, rejected), TEMPLATE, n) for n in (1024, most))
    for side in ("chosen_ids", "rejected_ids"):
        uncut = [*whole["prompt_ids"], *whole[side]]
        assert [*cut["prompt_ids"], *cut[side]] == uncut[:most]


def test_an_answer_in_several_pairs_is_one_answer() -> None:
    pairs = [
        {"prompt_ids": [1], "chosen_ids": [2], "rejected_ids": [3]},
        {"prompt_ids": [1], "chosen_ids": [2], "rejected_ids": [4]},
        {"prompt_ids": [9], "chosen_ids": [2], "rejected_ids": [4]},
    ]
    answers = [(r["prompt_ids"], r["completion_ids"], r["label"]) for r in answers_of(pairs)]
    assert answers == [
        ([1], [2], True), ([1], [3], False), ([1], [4], False), ([9], [2], True), ([9], [4], False),
    ]  # fmt: skip


@given(encoded, st.integers(2, 5), st.integers(0, 3))
def test_the_kls_answers_are_those_of_the_batch_each_to_another_row(
    pairs: list[dict[str, Any]], size: int, seed: int
) -> None:
    answers = list(answers_of(pairs))
    for place, row in enumerate(answers):
        row["completion_ids"] = [place]  # to tell them apart
    rows = in_batches(answers, size, seed, 1024)
    assert sorted(r["completion_ids"] for r in rows) == sorted(r["completion_ids"] for r in answers)
    for first in range(0, len(rows), size):
        batch = rows[first : first + size]
        assert len(rows) == 1 or all(r["KL_completion_ids"] != r["completion_ids"] for r in batch)
        if len(batch) > 1:
            own, other = (
                Counter(r[name][0] for r in batch)
                for name in ("completion_ids", "KL_completion_ids")
            )
            assert own == other


@given(encoded, st.integers(2, 5), st.integers(0, 3))
def test_the_kls_answers_are_those_to_other_prompts_as_far_as_a_batch_has_such(
    pairs: list[dict[str, Any]], size: int, seed: int
) -> None:
    answers = list(answers_of(pairs))
    prompts = [(*row["prompt_ids"],) for row in answers]
    for place, row in enumerate(answers):
        row["completion_ids"] = [place]
    rows = in_batches(answers, size, seed, 1024)
    for first in range(0, len(rows), size):
        batch = rows[first : first + size]
        alike = sum(prompts[r["KL_completion_ids"][0]] == (*r["prompt_ids"],) for r in batch)
        if len(batch) > 1:
            most = max(Counter((*r["prompt_ids"],) for r in batch).values())
            assert alike == max(0, 2 * most - len(batch))
        else:
            assert alike == (len({*prompts}) == 1)


@given(encoded, st.integers(4, 7), st.integers(2, 5), st.integers(0, 3))
def test_prompts_with_the_kls_answers_are_cut_where_the_trainer_cuts_them(
    pairs: list[dict[str, Any]], max_length: int, size: int, seed: int
) -> None:
    rows = in_batches(answers_of(pairs), size, seed, max_length)
    for row, whole in zip(rows, in_batches(answers_of(pairs), size, seed, 1024), strict=True):
        read = [*row["prompt_ids"], *row["KL_completion_ids"]]
        assert read == [*whole["prompt_ids"], *whole["KL_completion_ids"]][:max_length]


def test_the_order_is_the_seeds() -> None:
    rows = [{"prompt_ids": [i], "completion_ids": [i], "label": True} for i in range(20)]
    assert in_batches(rows, 4, 1, 9) == in_batches(rows, 4, 1, 9) != in_batches(rows, 4, 2, 9)
    assert columns_of(in_batches(rows, 4, 1, 9))["label"] == [True] * 20
    assert columns_of([]) == {}


@given(st.integers(1, 999), st.integers(1, 999))
def test_both_kinds_weigh_the_same_in_all_and_none_less_than_one(
    desirable: int, undesirable: int
) -> None:
    first, second = weights_of(KTOSection(), desirable, undesirable)
    assert first * desirable == pytest.approx(second * undesirable)
    assert min(first, second) == 1


def test_weights_of_the_plan_are_taken_as_they_are() -> None:
    assert weights_of(KTOSection(desirable_weight=2.0), 3, 9) == (2.0, 1.0)
    assert weights_of(KTOSection(), 0, 9) == (1.0, 1.0)


def test_only_answers_have_labels_in_a_batch() -> None:
    batch = collating(0)([([5, 6], [7]), ([5], [8, 9, 2])])
    assert batch["input_ids"].tolist() == [[5, 6, 7, 0], [5, 8, 9, 2]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]
    assert batch["labels"].tolist() == [[-100, -100, 7, -100], [-100, 8, 9, 2]]
