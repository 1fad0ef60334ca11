"""Answers to the same prompt, in rows of a batch, need the prompt to be read only once.

    x x x x a a a           x x x x a a a b b
    x x x x b b      ->     b does not see a, and has the positions that follow x

The two answers of a preference pair are such rows, and the answers to a prompt that PPO compares
with each other. What comes out is what comes out of rows of their own, up to rounding; with
prompts much longer than answers, K answers take little more time than one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import gcd
from typing import Any

import torch
from torch import Tensor

# Where less is saved of the tokens, the larger attention of a longer row may cost more.
LEAST_SAVED = 0.1
PROMPT = 0

Together = Callable[[int], Tensor]
"""For a number of rows: the rows [G, K] int64 that may share a prompt, each row in one group."""


@dataclass(frozen=True, kw_only=True)
class Packed:
    """G groups of K rows in G rows of S tokens at most, which were N = G K rows of T.

    Attributes:
        ids: [G, S] int64.
        positions: [G, S] int64, of each token in the row it was in.
        sees: [G, 1, S, S] bool, the tokens (last axis) that a token (third axis) attends to.
        groups: [N] int64, the row in which each of the N rows is now.
        places: [N, T] int64, where each of their tokens is there; 0 for padding.
    """

    ids: Tensor
    positions: Tensor
    sees: Tensor
    groups: Tensor
    places: Tensor

    def unpacked(self, hidden: Tensor) -> Tensor:
        """[G, S, H] -> [N, T, H]."""
        return hidden[self.groups[:, None], self.places]


def added(sees: Tensor, dtype: torch.dtype) -> Tensor:
    """What is added to attention scores: 0 where a token sees another, else the least number."""
    return torch.zeros_like(sees, dtype=dtype).masked_fill(~sees, torch.finfo(dtype).min)


MASKS: Mapping[str, Callable[[Tensor, torch.dtype], Tensor]] = {
    "sdpa": lambda sees, dtype: sees,
    "eager": added,
}
"""What each attention of transformers takes as its mask."""


def chosen_and_rejected(rows: int) -> Tensor:
    """Pairs as TRL puts them together: all chosen rows before all rejected ones."""
    return torch.arange(rows).view(2, -1).T


def neighbours(answers: int) -> Together:
    """Runs of `answers` rows to one prompt; shorter ones where a batch does not hold whole runs."""
    return lambda rows: torch.arange(rows).view(-1, gcd(rows, answers))


def packed(ids: Tensor, attention: Tensor, together: Tensor) -> Packed | None:
    """Rows that begin alike, put together.

    Args:
        ids: [N, T] int64, padded on the right.
        attention: [N, T], 1 where a token is.
        together: [G, K] int64, the rows of each group.

    Returns:
        None where too little would be saved.
    """
    together, there = together.to(ids.device), attention.bool()
    members, same = ids[together], there[together].all(dim=1)
    prompt = ((members == members[:, :1]).all(dim=1) & same).long().cumprod(dim=1).sum(dim=1)
    answers = there.sum(dim=1)[together] - prompt[:, None]
    width = int((prompt + answers.sum(dim=1)).max())
    if len(together) * width > (1 - LEAST_SAVED) * ids.numel():
        return None

    def by_row(values: Tensor) -> Tensor:
        """[G, K] -> [N, 1]."""
        return torch.empty_like(ids[:, 0]).scatter_(0, together.flatten(), values.flatten())[
            :, None
        ]

    # Answers are numbered from 1, as 0 (PROMPT) is what all of a group's answers see.
    number = torch.arange(1, together.shape[1] + 1, device=ids.device).expand_as(together)
    column = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
    in_answer = column >= by_row(prompt[:, None].expand_as(together))
    segment = by_row(number) * in_answer
    shift = by_row(answers.cumsum(dim=1) - answers)
    # Padding goes to one column too many, which `put` cuts off: a scatter has to put it somewhere.
    places = torch.where(there, column + shift * in_answer, width)

    def put(values: Tensor, padding: int) -> Tensor:
        rows = values.new_full((len(together), width + 1), padding)
        for member in together.T:
            rows.scatter_(1, places[member], values[member])
        return rows[:, :width]

    # Padding is a segment of its own (-1) and so sees itself: a row of the mask without any token
    # would make its softmax NaN.
    segments = put(segment, -1)
    own = segments[:, :, None] == segments[:, None, :]
    sees = (own | (segments == PROMPT)[:, None, :]).tril()
    groups = torch.arange(len(together), device=ids.device)[:, None].expand_as(together)
    return Packed(
        ids=put(ids, 0),
        positions=put(column, 0),
        sees=sees[:, None],
        groups=by_row(groups)[:, 0],
        # `unpacked` reads a token for padding as well; any will do, column 0 is always there.
        places=places * there,
    )


def read_prompts_once(model: Any, together: Together) -> None:
    """Have a transformers model read the prompts that rows of a batch share once; changed in place.

    It does so where it is given the attention mask of a batch that is padded on the right. A model
    whose attention takes no mask of others, or has a window of its own, is left as it is.
    """
    if getattr(model.config, "sliding_window", None):
        return
    if model.config._attn_implementation not in MASKS:
        return
    mask_of = MASKS[model.config._attn_implementation]
    decoder = model.base_model
    row_by_row = decoder.forward

    def forward(input_ids: Tensor, attention_mask: Tensor | None = None, **given: Any) -> Any:
        rows = None
        if attention_mask is not None:
            rows = packed(input_ids, attention_mask, together(len(input_ids)))
        if rows is None:
            return row_by_row(input_ids=input_ids, attention_mask=attention_mask, **given)
        mask = mask_of(rows.sees, next(decoder.parameters()).dtype)
        given |= {"attention_mask": mask, "position_ids": rows.positions}
        output = row_by_row(input_ids=rows.ids, **given)
        output.last_hidden_state = rows.unpacked(output.last_hidden_state)
        return output

    decoder.forward = forward
