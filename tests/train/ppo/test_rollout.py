"""Token tensors of rollouts: what the engine produced is what is trained on, in its place."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from rldf_ray.train.ppo.losses import token_logprobs
from rldf_ray.train.ppo.rollout import Rollout, batch_of, in_batches, prompt_order

PAD = 0
SHORT = Rollout(
    prompt_ids=(5, 6),
    answer_ids=(7, 8, 9),
    engine_logprobs=(-0.1, -0.2, -0.3),
    text="a",
    ended=True,
)
LONG = Rollout(
    prompt_ids=(5, 6, 7, 8), answer_ids=(9,), engine_logprobs=(-0.9,), text="b", ended=False
)


def test_mask_is_true_where_the_next_token_is_the_answers() -> None:
    batch = batch_of([SHORT, LONG], PAD)
    assert batch.ids.tolist() == [[5, 6, 7, 8, 9], [5, 6, 7, 8, 9]]
    assert batch.mask.tolist() == [[False, True, True, True], [False, False, False, True]]
    for row, rollout in enumerate((SHORT, LONG)):
        chosen = batch.ids[row, 1:][batch.mask[row]]
        assert tuple(chosen.tolist()) == rollout.answer_ids
        logprobs = batch.engine_logprobs[row][batch.mask[row]]
        assert logprobs.tolist() == pytest.approx(list(rollout.engine_logprobs))


def test_padding_is_neither_attended_nor_trained_on() -> None:
    tiny = Rollout(prompt_ids=(5,), answer_ids=(6,), engine_logprobs=(-0.5,), text="c", ended=True)
    batch = batch_of([tiny, SHORT], PAD)
    assert batch.attention.tolist() == [[1, 1, 0, 0, 0], [1, 1, 1, 1, 1]]
    assert batch.mask[0].tolist() == [True, False, False, False]


def test_logprobs_line_up_with_the_mask() -> None:
    batch = batch_of([SHORT], PAD)
    logits = torch.full((1, 5, 12), -20.0)
    for position, following in enumerate([6, 7, 8, 9]):
        logits[0, position, following] = 20.0
    found = token_logprobs(logits[:, :-1], batch.ids[:, 1:])
    assert found[batch.mask].tolist() == pytest.approx([0.0, 0.0, 0.0], abs=1e-6)


def test_batches_keep_the_order() -> None:
    batches = list(in_batches([SHORT, LONG, SHORT], 2, PAD))
    assert [len(b.ids) for b in batches] == [2, 1]


def test_every_prompt_is_answered_once_before_any_is_answered_twice() -> None:
    topics = [f"t{i}" for i in range(7)]
    order = prompt_order(topics, 17, seed=3)
    assert len(order) == 17
    assert set(order[:7]) == set(order[7:14]) == set(range(7))
    assert max(Counter(order).values()) - min(Counter(order).values()) <= 1
    assert order == prompt_order(topics, 17, seed=3)
    assert order != prompt_order(topics, 17, seed=4)


def test_a_topics_prompts_follow_one_another() -> None:
    topics = ["a", "a", "b", "b", "opinion", "c", "c"]
    order = prompt_order(topics, 14, seed=3)
    asked = [topics[prompt] for prompt in order]
    for scene in "abc":
        places = [place for place, topic in enumerate(asked) if topic == scene]
        assert places[1] == places[0] + 1 and places[3] == places[2] + 1
    assert asked[:7] != asked[7:]
