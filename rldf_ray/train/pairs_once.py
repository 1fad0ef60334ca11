"""The two answers of a pair follow the same prompt, which the reward model needs to read only once.

    chosen    x x x x a a a           x x x x a a a b b
    rejected  x x x x b b      ->     b does not see a, and has the positions that follow x

What comes out is what comes out of two rows, up to rounding; where a prompt is much longer than
its answers it takes half the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

# Where less is saved of the tokens, the larger attention of a longer row may cost more.
LEAST_SAVED = 0.1
PROMPT, CHOSEN, REJECTED, PADDING = range(4)


@dataclass(frozen=True)
class Packed:
    """B pairs in B rows of S tokens at most, which were 2B rows of T.

    Attributes:
        ids: [B, S] int64.
        positions: [B, S] int64, of each token in the row it was in.
        sees: [B, 1, S, S] bool, the tokens (last axis) that a token (third axis) attends to.
        places: [2B, T] int64, where each token of the 2B rows is now; 0 for padding.
    """

    ids: Tensor
    positions: Tensor
    sees: Tensor
    places: Tensor

    def unpacked(self, hidden: Tensor) -> Tensor:
        """[B, S, H] -> [2B, T, H]."""
        pairs = torch.arange(len(hidden), device=hidden.device).repeat(2)
        return hidden[pairs[:, None], self.places]


def packed(ids: Tensor, attention: Tensor) -> Packed | None:
    """Pairs as TRL puts them together, all chosen rows before all rejected ones.

    Args:
        ids: [2B, T] int64, padded on the right.
        attention: [2B, T], 1 where a token is.

    Returns:
        None where too little would be saved.
    """
    pairs, there = len(ids) // 2, attention.bool()
    same = (ids[:pairs] == ids[pairs:]) & there[:pairs] & there[pairs:]
    prompt = same.long().cumprod(dim=1).sum(dim=1)
    chosen, rejected = there.sum(dim=1).view(2, pairs) - prompt
    width = int((prompt + chosen + rejected).max())
    if pairs * width > (1 - LEAST_SAVED) * ids.numel():
        return None
    column = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
    in_answer = column >= prompt.repeat(2)[:, None]
    side = torch.tensor((CHOSEN, REJECTED), device=ids.device).repeat_interleave(pairs)
    segment = torch.where(in_answer, side[:, None], PROMPT)
    shift = torch.cat([torch.zeros_like(chosen), chosen])
    places = torch.where(there, column + shift[:, None] * in_answer, width)

    def put(values: Tensor, padding: int) -> Tensor:
        rows = values.new_full((pairs, width + 1), padding)
        for half in (slice(None, pairs), slice(pairs, None)):
            rows.scatter_(1, places[half], values[half])
        return rows[:, :width]

    segments = put(segment, PADDING)
    own = segments[:, :, None] == segments[:, None, :]
    sees = (own | (segments == PROMPT)[:, None, :]).tril()
    return Packed(put(ids, 0), put(column, 0), sees[:, None], places * there)


def read_prompts_once(model: Any) -> None:
    """Have a transformers sequence classifier compute batches of pairs packed; changed in place.

    A model whose attention takes no mask of others, or has a window of its own, is left as it is.
    """
    if model.config._attn_implementation != "sdpa" or getattr(model.config, "sliding_window", None):
        return
    decoder = model.base_model
    row_by_row = decoder.forward

    def forward(input_ids: Tensor, attention_mask: Tensor, **given: Any) -> Any:
        pairs = packed(input_ids, attention_mask)
        if pairs is None:
            return row_by_row(input_ids=input_ids, attention_mask=attention_mask, **given)
        given |= {"attention_mask": pairs.sees, "position_ids": pairs.positions}
        output = row_by_row(input_ids=pairs.ids, **given)
        output.last_hidden_state = pairs.unpacked(output.last_hidden_state)
        return output

    decoder.forward = forward
