"""PINE: a decoder that reads documents as a set.

Source: Z. Wang et al. 2024, *Eliminating Position Bias of Language Models: A Mechanistic Approach*.

    prefix | document 1, document 2, ... | suffix and whatever is generated

Documents see each other in full and themselves causally. In every layer and head a query ranks the
documents by their importance to it, which takes no positions into account, and sees the most
important one nearest. So what follows the documents does not depend on their order.

Weights stay as they are; only the attention is another. Keys are rotated once, at their base
position: rotary embeddings depend on differences, so instead of moving a document's keys the query
is rotated anew for each document. Without documents this is the stock causal attention.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rldf_ray.errors import UserError

FAMILIES = ("llama", "qwen2", "qwen3")
MOVING_FREQUENCIES = ("dynamic", "longrope")


class PositionInvariantError(UserError, ValueError):
    """A model cannot be read so; the message says why, and which can."""


@dataclass(frozen=True)
class Layout:
    """Where the parts of an input lie.

    Attributes:
        prefix, suffix: their lengths, in tokens; the prefix has one at least.
        documents: the length of each.
    """

    prefix: int
    documents: tuple[int, ...]
    suffix: int

    @property
    def region(self) -> int:
        """Tokens of all documents."""
        return sum(self.documents)

    @property
    def end(self) -> int:
        """Where the documents end."""
        return self.prefix + self.region

    @property
    def total(self) -> int:
        return self.end + self.suffix

    def starts(self) -> list[int]:
        """Where each document begins."""
        return [self.prefix + sum(self.documents[:j]) for j in range(len(self.documents))]

    def positions(self) -> Tensor:
        """Base position of each token, [total] int64: documents end where the suffix begins."""
        documents = [torch.arange(self.end - length, self.end) for length in self.documents]
        ends = torch.arange(self.prefix), torch.arange(self.end, self.total)
        return torch.cat([ends[0], *documents, ends[1]])

    def owner(self) -> Tensor:
        """Which document each token is of, [total] int64; -1 for the prefix, n for the suffix."""
        lengths = [self.prefix, *self.documents, self.suffix]
        return torch.repeat_interleave(
            torch.arange(-1, len(self.documents) + 1), torch.tensor(lengths)
        )

    def visible(self) -> Tensor:
        """Which token (second axis) a token (first axis) sees, [total, total] bool."""
        owner, place = self.owner(), torch.arange(self.total)
        n = len(self.documents)
        documents = (owner >= 0) & (owner < n)
        earlier = place[:, None] >= place
        others = documents[:, None] & documents & (owner[:, None] != owner)
        return earlier & (others.logical_not() | (owner[:, None] == owner)) | others


def shifts(importance: Tensor, lengths: Tensor) -> Tensor:
    """How much nearer to the query than its base every document is seen.

    Args:
        importance: [..., n] of the documents to a query.
        lengths: [n] int64, of the documents.

    Returns:
        [..., n] int64: the tokens of the documents that are more important.
    """
    order = torch.argsort(importance, dim=-1, descending=True, stable=True)
    ordered = lengths[order]
    return torch.zeros_like(ordered).scatter(-1, order, ordered.cumsum(-1) - ordered)


class PositionInvariant:
    """A transformers decoder of the Llama, Qwen2 or Qwen3 type under this attention.

    Args:
        model: for causal language modelling, changed in nothing.

    Raises:
        PositionInvariantError: it is of another type, or its positions are not plain rotations.
    """

    def __init__(self, model: Any) -> None:
        config = model.config
        if config.model_type not in FAMILIES:
            raise PositionInvariantError(
                f"a model of type {config.model_type!r} cannot be read position-invariantly; "
                f"allowed: {', '.join(FAMILIES)}"
            )
        kind = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default")
        if kind in MOVING_FREQUENCIES:
            raise PositionInvariantError(
                f"rope_type={kind!r}: its frequencies depend on the length; allowed are fixed ones"
            )
        if "sliding_attention" in (getattr(config, "layer_types", None) or ()):
            raise PositionInvariantError(
                "the model has layers of sliding-window attention; allowed is full attention"
            )
        self._lm, self._decoder = model, model.model
        self._rotary = self._decoder.rotary_emb
        self._kv_heads = config.num_key_value_heads
        self._dim = getattr(config, "head_dim", None) or (
            config.hidden_size // config.num_attention_heads
        )

    @torch.no_grad()
    def read(self, parts: Sequence[Sequence[int]], room: int = 0) -> tuple[Tensor, Reading]:
        """Read prefix, documents and suffix.

        Args:
            parts: token ids of the prefix, of each document, of the suffix.
            room: tokens that may be generated afterwards.

        Returns:
            Logits of the suffix, [suffix, vocabulary], and what generation goes on from.
        """
        prefix, *documents, suffix = parts
        layout = Layout(len(prefix), tuple(map(len, documents)), len(suffix))
        device = self._lm.device
        ids = torch.tensor([token for part in parts for token in part], device=device)
        hidden = self._decoder.embed_tokens(ids)
        positions = layout.positions().to(device)
        reading = Reading(layout, layout.visible().to(device), [], layout.total)
        for layer in self._decoder.layers:
            cache = _Cache(self._kv_heads, layout.total + room, self._dim, hidden)
            reading.caches.append(cache)
            hidden = self._layer(layer, hidden, positions, cache, reading)
        reading.visible = None
        return self._lm.lm_head(self._decoder.norm(hidden[layout.end :])), reading

    @torch.no_grad()
    def follow(self, token: int, reading: Reading) -> Tensor:
        """Logits after one more token, [vocabulary]."""
        device = self._lm.device
        hidden = self._decoder.embed_tokens(torch.tensor([token], device=device))
        # From the suffix on, a token's position is its place.
        positions = torch.tensor([reading.length], device=device)
        for layer, cache in zip(self._decoder.layers, reading.caches, strict=True):
            hidden = self._layer(layer, hidden, positions, cache, reading)
        reading.length += 1
        logits: Tensor = self._lm.lm_head(self._decoder.norm(hidden))[0]
        return logits

    def _layer(
        self, layer: Any, hidden: Tensor, positions: Tensor, cache: _Cache, reading: Reading
    ) -> Tensor:
        """One transformer layer over new tokens, [T, hidden] -> [T, hidden]."""
        attention = layer.self_attn
        normed = layer.input_layernorm(hidden)
        heads = (len(hidden), -1, self._dim)
        query, key, value = (
            projection(normed).view(heads)
            for projection in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        if hasattr(attention, "q_norm"):
            query, key = attention.q_norm(query), attention.k_norm(key)
        query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        cache.add(key, self._rotated(key, positions), value)
        seen = self._attend(query, positions, cache, reading)
        hidden = hidden + attention.o_proj(seen.transpose(0, 1).reshape(len(hidden), -1))
        after: Tensor = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
        return after

    def _attend(self, query: Tensor, positions: Tensor, cache: _Cache, reading: Reading) -> Tensor:
        """What the queries [heads, T, d] of new tokens see, [heads, T, d]."""
        layout, scale = reading.layout, self._dim**-0.5
        base = _scores(self._rotated(query, positions), cache.rotated)
        parts = [base[..., : layout.prefix]]
        if layout.documents:
            shift = self._shifts(query, cache, reading)
            for document, (start, length) in enumerate(
                zip(layout.starts(), layout.documents, strict=True)
            ):
                turned = self._rotated(query, positions + shift[..., document])
                parts.append(_scores(turned, cache.rotated[:, start : start + length]))
        parts.append(base[..., layout.end :])
        scores = _precise(torch.cat(parts, -1)) * scale
        if reading.visible is not None:
            scores = scores.masked_fill(~reading.visible, float("-inf"))
        return _grouped(scores.softmax(-1).to(cache.value.dtype), cache.value)

    def _shifts(self, query: Tensor, cache: _Cache, reading: Reading) -> Tensor:
        """How much nearer each query sees each document, [heads, T, n] int64; 0 in the prefix."""
        layout, scale = reading.layout, self._dim**-0.5
        lengths = torch.tensor(layout.documents, device=query.device)
        keys = cache.raw[:, layout.prefix : layout.end]
        raw = _precise(_scores(query, keys)) * scale
        pooling = _pooling(layout, raw)
        if reading.visible is None:
            return shifts(raw.softmax(-1) @ pooling, lengths)
        result = torch.zeros(*query.shape[:2], len(lengths), dtype=torch.int64, device=query.device)
        after = raw[:, layout.end :].softmax(-1) @ pooling
        result[:, layout.end :] = shifts(after, lengths)
        for document, (start, length) in enumerate(
            zip(layout.starts(), layout.documents, strict=True)
        ):
            own = slice(start - layout.prefix, start - layout.prefix + length)
            others = raw[:, start : start + length].clone()
            others[..., own] = float("-inf")
            # A document alone has no others; its own tokens are the nearest either way.
            importance = (others.softmax(-1).nan_to_num() @ pooling).sum(1)
            importance[:, document] = float("inf")
            result[:, start : start + length] = shifts(importance, lengths)[:, None]
        return result

    def _angles(self, positions: Tensor) -> Tensor:
        """[...] -> [..., d], in float32 as the stock models have them."""
        angles = positions[..., None].float() * self._rotary.inv_freq.float()
        return torch.cat((angles, angles), -1)

    def _rotated(self, states: Tensor, positions: Tensor) -> Tensor:
        """Rotary embedding of [heads, T, d] at positions [T] or [heads, T]."""
        angles = self._angles(positions)
        scaling = self._rotary.attention_scaling
        cos, sin = ((f(angles) * scaling).to(states.dtype) for f in (torch.cos, torch.sin))
        one, two = states.chunk(2, -1)
        turned: Tensor = states * cos + torch.cat((-two, one), -1) * sin
        return turned


class _Cache:
    """Keys and values of one layer: [kv heads, tokens so far, d]; keys as they are and rotated."""

    def __init__(self, heads: int, room: int, dim: int, like: Tensor) -> None:
        self._states = like.new_empty((3, heads, room, dim))
        self._length = 0

    def add(self, raw: Tensor, rotated: Tensor, value: Tensor) -> None:
        begin, self._length = self._length, self._length + raw.shape[1]
        for part, states in enumerate((raw, rotated, value)):
            self._states[part, :, begin : self._length] = states

    @property
    def raw(self) -> Tensor:
        return self._states[0, :, : self._length]

    @property
    def rotated(self) -> Tensor:
        return self._states[1, :, : self._length]

    @property
    def value(self) -> Tensor:
        return self._states[2, :, : self._length]


@dataclass
class Reading:
    """An input that has been read, and what has been generated after it.

    Attributes:
        visible: while the input is read, which token sees which; afterwards None: all.
        length: tokens so far.
    """

    layout: Layout
    visible: Tensor | None
    caches: list[_Cache]
    length: int


def _precise(scores: Tensor) -> Tensor:
    """In float32 at least: documents of nearly equal importance would change places."""
    return scores.to(torch.promote_types(scores.dtype, torch.float32))


def _scores(query: Tensor, keys: Tensor) -> Tensor:
    """[heads, T, d] x [kv heads, S, d] -> [heads, T, S]; query heads share key heads in order."""
    groups, (tokens, dim) = len(keys), query.shape[1:]
    flat = query.reshape(groups, -1, dim) @ keys.transpose(1, 2)
    return flat.view(len(query), tokens, keys.shape[1])


def _grouped(weights: Tensor, values: Tensor) -> Tensor:
    """[heads, T, S] x [kv heads, S, d] -> [heads, T, d]."""
    heads, tokens, keys = weights.shape
    flat = weights.reshape(len(values), -1, keys) @ values
    return flat.view(heads, tokens, -1)


def _pooling(layout: Layout, like: Tensor) -> Tensor:
    """Mean over each document's tokens, [documents' tokens, n]."""
    parts = [like.new_full((length, 1), 1 / length) for length in layout.documents]
    pooling: Tensor = torch.block_diag(*parts)
    return pooling
