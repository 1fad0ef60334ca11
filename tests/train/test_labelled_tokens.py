"""A head that scores labelled tokens alone has the loss, figures and gradients it had."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from rldf_ray.train.labelled_tokens import BY_TOKEN, score_labelled_tokens
from rldf_ray.train.likelihoods import collating
from tests.train.tiny import tiny_config

words = st.integers(3, 45)
rows = st.lists(
    st.tuples(st.lists(words, min_size=1, max_size=9), st.lists(words, min_size=1, max_size=4)),
    min_size=1,
    max_size=4,
)


def with_head(**changes: Any) -> Any:
    from transformers import LlamaForCausalLM
    from trl.trainer import add_fused_lm_head

    torch.manual_seed(0)
    model = LlamaForCausalLM(tiny_config(**changes))
    add_fused_lm_head(model, outputs=BY_TOKEN)
    return model


def figures(model: Any, batch: dict[str, Tensor]) -> tuple[dict[str, Tensor], list[Tensor]]:
    """What a pass gives, and the gradients of the loss that TRL makes of it."""
    model.zero_grad()
    output = model(**batch, fused_lm_head=True)
    (-output.log_probs.sum() / output.label_mask.sum()).backward()
    given = {name: getattr(output, name).detach() for name in (*BY_TOKEN, "label_mask", "loss")}
    return given, [p.grad.clone() for p in model.parameters() if p.grad is not None]


@pytest.mark.parametrize("tied", [True, False])
@settings(max_examples=20)
@given(rows=rows)
def test_a_pass_is_as_before(rows: list[tuple[list[int], list[int]]], tied: bool) -> None:
    batch = collating(0)(rows)
    whole, before = figures(with_head(tie_word_embeddings=tied), batch)
    model = with_head(tie_word_embeddings=tied)
    score_labelled_tokens(model)
    alone, after = figures(model, batch)
    for name, value in whole.items():
        torch.testing.assert_close(alone[name], value, msg=name)
    for one, other in zip(before, after, strict=True):
        torch.testing.assert_close(other, one)


def test_the_head_is_given_labelled_tokens_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from trl.trainer import utils

    head, scored = utils._ChunkedLogProbFunction, []

    class Counting:
        @staticmethod
        def apply(hidden: Tensor, *rest: Any) -> Any:
            scored.append(len(hidden))
            return head.apply(hidden, *rest)

    monkeypatch.setattr(utils, "_ChunkedLogProbFunction", Counting)
    batch = collating(0)([([5, 6, 7, 8], [9, 10]), ([5], [11, 12, 13])])
    model = with_head()
    model(**batch, fused_lm_head=True)
    score_labelled_tokens(model)
    model(**batch, fused_lm_head=True)
    assert scored == [10, 5]


def test_passes_without_labels_or_without_the_head_are_left_alone() -> None:
    batch = collating(0)([([5, 6, 7, 8], [9, 10])])
    whole, model = with_head(), with_head()
    score_labelled_tokens(model)
    for fields in (batch, {"input_ids": batch["input_ids"]}):
        torch.testing.assert_close(model(**fields).logits, whole(**fields).logits)


def test_a_batch_without_a_label_has_a_loss_of_nothing() -> None:
    model = with_head()
    score_labelled_tokens(model)
    batch = collating(0)([([5, 6, 7], [])])
    output = model(**batch, fused_lm_head=True)
    assert output.loss.item() == 0
    output.loss.backward()
