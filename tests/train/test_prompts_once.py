"""Rows whose prompt is read once have the rewards, logits and gradients of rows of their own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from rldf_ray.models.reward_score import padded
from rldf_ray.train.prompts_once import (
    Together,
    chosen_and_rejected,
    neighbours,
    packed,
    read_prompts_once,
)
from tests.train.tiny import tiny_config

Ids = list[int]
words = st.integers(3, 45)
prompts = st.lists(words, min_size=1)


def answered(answers: int) -> st.SearchStrategy[list[tuple[Ids, list[Ids]]]]:
    """Prompts with so many answers to each."""
    some = st.lists(st.lists(words, max_size=6), min_size=answers, max_size=answers)
    return st.lists(st.tuples(prompts, some), min_size=1)


def classifier(**changes: Any) -> Any:
    from transformers import LlamaForSequenceClassification

    torch.manual_seed(0)
    return LlamaForSequenceClassification(tiny_config(num_labels=1, **changes))


def language_model(**changes: Any) -> Any:
    from transformers import LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(tiny_config(**changes))


def as_trl(given: list[tuple[Ids, list[Ids]]]) -> tuple[Tensor, Tensor]:
    """As TRL's collator does it: the chosen rows, then the rejected ones."""
    return padded([[*x, *answers[side], 2] for side in (0, 1) for x, answers in given], pad_id=0)


def one_after_the_other(given: list[tuple[Ids, list[Ids]]]) -> tuple[Tensor, Tensor]:
    return padded([[*x, *answer, 2] for x, answers in given for answer in answers], pad_id=0)


def gradients(model: Any) -> list[Tensor]:
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


def rewards_and_gradients(model: Any, rows: tuple[Tensor, Tensor]) -> list[Tensor]:
    model.zero_grad()
    rewards = model(input_ids=rows[0], attention_mask=rows[1], use_cache=False).logits[:, 0]
    chosen, rejected = rewards.chunk(2)
    (-torch.nn.functional.logsigmoid(chosen - rejected).mean() + (rewards**2).mean()).backward()
    return [rewards.detach(), *gradients(model)]


def logits_and_gradients(model: Any, rows: tuple[Tensor, Tensor]) -> list[Tensor]:
    """Of all tokens but padding; each with a weight of its own in the loss."""
    model.zero_grad()
    logits = model(input_ids=rows[0], attention_mask=rows[1], use_cache=False).logits
    logits = logits[rows[1].bool()]
    (logits.logsumexp(-1) * torch.linspace(-1, 1, len(logits))).sum().backward()
    return [logits.detach(), *gradients(model)]


attentions = st.sampled_from(["sdpa", "eager"])


@given(answered(2), attentions)
@settings(max_examples=40, deadline=None)
def test_pairs_have_rewards_and_gradients_of_two_rows(
    given: list[tuple[Ids, list[Ids]]], attention: str
) -> None:
    rows, model = as_trl(given), classifier(attn_implementation=attention)
    expected = rewards_and_gradients(model, rows)
    read_prompts_once(model, chosen_and_rejected)
    torch.testing.assert_close(rewards_and_gradients(model, rows), expected, rtol=1e-4, atol=1e-6)


@given(st.integers(1, 5).flatmap(answered), st.integers(1, 5), attentions)
@settings(max_examples=40, deadline=None)
def test_answers_have_logits_and_gradients_of_rows_of_their_own(
    given: list[tuple[Ids, list[Ids]]], expected_answers: int, attention: str
) -> None:
    """Also where others are beside each other than was said."""
    rows, model = one_after_the_other(given), language_model(attn_implementation=attention)
    expected = logits_and_gradients(model, rows)
    read_prompts_once(model, neighbours(expected_answers))
    torch.testing.assert_close(logits_and_gradients(model, rows), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("together", "put"),
    [(chosen_and_rejected, as_trl), (neighbours(2), one_after_the_other)],
)
def test_fewer_tokens_are_computed(together: Together, put: Any) -> None:
    model, seen = classifier(), []
    model.model.layers[0].register_forward_pre_hook(
        lambda layer, given: seen.append(given[0].shape)
    )
    read_prompts_once(model, together)
    ids, attention = put([([5] * 20, [[6, 7, 8], [9]]), ([5] * 18, [[6], [7]])])
    model(input_ids=ids, attention_mask=attention)
    # 20 + 4 + 2 tokens in place of two rows of 24.
    assert [tuple(shape[:2]) for shape in seen] == [(2, 26)]


def test_a_batch_that_cuts_a_prompts_answers_apart_keeps_together_what_it_has() -> None:
    assert neighbours(4)(8).tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert neighbours(4)(6).tolist() == [[0, 1], [2, 3], [4, 5]]
    assert neighbours(4)(3).tolist() == [[0], [1], [2]]


def test_rows_with_nothing_in_common_stay_rows_of_their_own() -> None:
    ids, attention = as_trl([([5], [[6] * 5, [7] * 5])])
    assert packed(ids, attention, chosen_and_rejected(2)) is None


@pytest.mark.parametrize(
    "changes", [{"attn_implementation": "flex_attention"}, {"sliding_window": 4}]
)
def test_a_model_that_takes_no_such_mask_is_left_as_it_is(changes: dict[str, Any]) -> None:
    model = classifier(**changes)
    read_prompts_once(model, chosen_and_rejected)
    assert "forward" not in vars(model.base_model)
