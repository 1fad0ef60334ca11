"""PINE (Wang et al. 2024): stock attention with one document, no order with several, exact."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from rldf_ray.models.position_invariant import (
    Layout,
    PositionInvariant,
    PositionInvariantError,
    shifts,
)

PREFIX, SUFFIX = [1, 5, 9, 2], [7, 3, 11]
DOCUMENTS = [[4, 8, 6, 10, 12], [13, 14, 15], [16, 17, 18, 19, 20, 21], [22, 23]]
SIZES: dict[str, Any] = {
    "vocab_size": 32,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}


def tiny(family: str) -> Any:
    """A random model of three layers with grouped heads, float64."""
    import transformers

    classes = {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3"}
    config = getattr(transformers, f"{classes[family]}Config")(
        **SIZES, **({"head_dim": 8} if family == "qwen3" else {})
    )
    torch.manual_seed(0)
    model = getattr(transformers, f"{classes[family]}ForCausalLM")(config).double().eval()
    # Sharp, so that importance and order matter.
    for parameter in model.parameters():
        parameter.data.mul_(3 if parameter.ndim > 1 else 1)
    return model


every_family = pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])


def stock(model: Any, parts: Sequence[Sequence[int]]) -> Tensor:
    ids = torch.tensor([[token for part in parts for token in part]])
    with torch.no_grad():
        logits: Tensor = model(ids).logits[0, -len(parts[-1]) :]
    return logits


@every_family
@pytest.mark.parametrize("documents", [[], DOCUMENTS[:1]])
def test_no_or_one_document_is_stock_attention(family: str, documents: list[list[int]]) -> None:
    model = tiny(family)
    parts = [PREFIX, *documents, SUFFIX]
    logits, _ = PositionInvariant(model).read(parts)
    assert torch.allclose(logits, stock(model, parts), atol=1e-9, rtol=0)


@every_family
@pytest.mark.parametrize("n", [2, 3, 4])
def test_the_order_of_documents_changes_nothing_after_them(family: str, n: int) -> None:
    model = tiny(family)
    reader = PositionInvariant(model)
    logits, _ = reader.read([PREFIX, *DOCUMENTS[:n], SUFFIX])
    moved = 0.0
    for order in itertools.permutations(DOCUMENTS[:n]):
        permuted, _ = reader.read([PREFIX, *order, SUFFIX])
        assert torch.allclose(permuted, logits, atol=1e-10, rtol=0)
        both = (
            stock(model, [PREFIX, *order, SUFFIX]),
            stock(model, [PREFIX, *DOCUMENTS[:n], SUFFIX]),
        )
        moved = max(moved, float((both[0] - both[1]).abs().max()))
    # The stock attention does not have that.
    assert moved > 1e-3


@every_family
def test_the_cheap_form_is_the_direct_one(family: str) -> None:
    """Keys moved to the places that each query sees them at, instead of turning the query."""
    model = tiny(family)
    parts = [PREFIX, *DOCUMENTS[:3], SUFFIX]
    logits, _ = _Precise(model).read(parts)
    direct, _ = _Direct(model).read(parts)
    assert torch.allclose(direct, logits, atol=1e-10, rtol=0)


class _Precise(PositionInvariant):
    """With angles in float64: in float32 a difference of two is not that of their difference."""

    def _angles(self, positions: Tensor) -> Tensor:
        angles = positions[..., None].double() * self._rotary.inv_freq.double()
        return torch.cat((angles, angles), -1)


class _Direct(_Precise):
    """The definition word for word: a key's position depends on query and head."""

    def _attend(self, query: Tensor, positions: Tensor, cache: Any, reading: Any) -> Tensor:
        layout, groups = reading.layout, len(query) // self._kv_heads
        keys = cache.raw.repeat_interleave(groups, 0)
        values = cache.value.repeat_interleave(groups, 0)
        shift = self._shifts(query, cache, reading)
        seen = layout.positions()[None, None].expand(*query.shape[:2], -1).clone()
        for document, (start, length) in enumerate(
            zip(layout.starts(), layout.documents, strict=True)
        ):
            seen[..., start : start + length] -= shift[..., document, None]
        scores = torch.empty(seen.shape, dtype=query.dtype)
        turned = self._rotated(query, positions)
        for place in range(query.shape[1]):
            moved = self._rotated(keys, seen[:, place])
            scores[:, place] = (turned[:, place, None] * moved).sum(-1) * self._dim**-0.5
        # Seen is exactly what has no later position: the mask is the comparison of positions.
        owner = layout.owner()
        later = owner == len(layout.documents)
        inside = (owner >= 0) & ~later
        compared = positions[None, :, None] >= seen
        compared[:, inside] &= ~later
        assert torch.equal(
            compared[:, inside | later],
            reading.visible[None, inside | later].expand(len(query), -1, -1),
        )
        return scores.masked_fill(~reading.visible, float("-inf")).softmax(-1) @ values


@every_family
def test_generation_goes_on_as_if_all_had_been_read_at_once(family: str) -> None:
    reader = PositionInvariant(tiny(family))
    whole, _ = reader.read([PREFIX, *DOCUMENTS[:2], [*SUFFIX, 24, 25]])
    logits, reading = reader.read([PREFIX, *DOCUMENTS[:2], SUFFIX], room=2)
    assert torch.allclose(logits[-1], whole[-3], atol=1e-10, rtol=0)
    for token, expected in ((24, whole[-2]), (25, whole[-1])):
        assert torch.allclose(reader.follow(token, reading), expected, atol=1e-10, rtol=0)


def test_more_important_documents_are_nearer() -> None:
    importance = torch.tensor([[0.2, 0.7, 0.1], [0.5, 0.1, 0.5]])
    found = shifts(importance, torch.tensor([5, 3, 6]))
    assert found.tolist() == [[3, 0, 8], [0, 11, 5]]


def test_every_document_ends_where_the_suffix_begins() -> None:
    layout = Layout(2, (2, 3), 1)
    assert layout.positions().tolist() == [0, 1, 5, 6, 4, 5, 6, 7]
    assert layout.owner().tolist() == [-1, -1, 0, 0, 1, 1, 1, 2]
    assert layout.visible()[3].tolist() == [True, True, True, True, True, True, True, False]
    assert layout.visible()[2].tolist() == [True, True, True, False, True, True, True, False]
    assert layout.visible()[1].tolist() == [True, True, *[False] * 6]


def test_models_that_cannot_be_read_so_are_refused() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

    with pytest.raises(PositionInvariantError, match=r"'gpt2'.*llama, qwen2, qwen3"):
        PositionInvariant(GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=2, n_embd=8)))
    scaled = LlamaConfig(
        **SIZES, rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    )
    with pytest.raises(PositionInvariantError, match="depend on the length"):
        PositionInvariant(LlamaForCausalLM(scaled))
