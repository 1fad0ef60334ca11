"""A pair whose prompt is read once has the rewards and gradients of two rows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rldf_ray.models.reward_score import padded
from rldf_ray.train.pairs_once import packed, read_prompts_once
from tests.train.tiny import tiny_config

Ids = list[int]
ids = st.lists(st.integers(3, 45), max_size=6)
pairs = st.lists(st.tuples(st.lists(st.integers(3, 45), min_size=1), ids, ids), min_size=1)


def classifier(**changes: Any) -> Any:
    from transformers import LlamaForSequenceClassification

    torch.manual_seed(0)
    return LlamaForSequenceClassification(tiny_config(num_labels=1, **changes))


def batch(given: list[tuple[Ids, Ids, Ids]]) -> tuple[torch.Tensor, torch.Tensor]:
    """As TRL's collator does it: the chosen rows, then the rejected ones."""
    rows = [x + a for x, a, _ in given] + [x + b for x, _, b in given]
    return padded([[*row, 2] for row in rows], pad_id=0)


def rewards_and_gradients(model: Any, rows: tuple[torch.Tensor, torch.Tensor]) -> list[Any]:
    model.zero_grad()
    rewards = model(input_ids=rows[0], attention_mask=rows[1], use_cache=False).logits[:, 0]
    chosen, rejected = rewards.chunk(2)
    (-torch.nn.functional.logsigmoid(chosen - rejected).mean() + (rewards**2).mean()).backward()
    return [rewards.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]


@given(pairs)
@settings(max_examples=40, deadline=None)
def test_rewards_and_gradients_are_those_of_two_rows(given: list[tuple[Ids, Ids, Ids]]) -> None:
    rows, model = batch(given), classifier()
    expected = rewards_and_gradients(model, rows)
    read_prompts_once(model)
    torch.testing.assert_close(rewards_and_gradients(model, rows), expected, rtol=1e-4, atol=1e-6)


def test_fewer_tokens_are_computed() -> None:
    model, seen = classifier(), []
    model.model.layers[0].register_forward_pre_hook(
        lambda layer, given: seen.append(given[0].shape)
    )
    read_prompts_once(model)
    ids, attention = batch([([5] * 20, [6, 7, 8], [9]), ([5] * 18, [6], [7])])
    model(input_ids=ids, attention_mask=attention)
    # 20 + 4 + 2 tokens in place of two rows of 24.
    assert [tuple(shape[:2]) for shape in seen] == [(2, 26)]


def test_pairs_with_nothing_in_common_stay_two_rows() -> None:
    assert packed(*batch([([5], [6] * 5, [7] * 5)])) is None


@pytest.mark.parametrize("changes", [{"attn_implementation": "eager"}, {"sliding_window": 4}])
def test_a_model_that_takes_no_such_mask_is_left_as_it_is(changes: dict[str, Any]) -> None:
    model = classifier(**changes)
    read_prompts_once(model)
    assert "forward" not in vars(model.base_model)
