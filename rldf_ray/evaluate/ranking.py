"""Multiple choice by ranking: which answer does a model find most likely, for any causal model.

The prompt is the one template of training and serving; each option is scored as the assistant's
answer by the mean log-likelihood of its tokens. A prompt is read once and its three options go on
from the same keys and values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rldf_ray.evaluate.bbq_data import BBQItem
from rldf_ray.models.reward_score import chat_ids, padded
from rldf_ray.prompts import render
from rldf_ray.train.ppo_math import token_logprobs


def prompt_of_item(item: BBQItem) -> list[dict[str, str]]:
    """The item's context and question in the one prompt template."""
    text = render("answer", text=item.context, question=item.question, clue=None, identity=None)
    return [{"role": "user", "content": text}]


def rank_options(
    folder: str | Path,
    items: Sequence[BBQItem],
    *,
    device: str,
    dtype: str,
    threads: int,
    batch: int,
) -> Iterator[dict[int, tuple[float, ...]]]:
    """Mean log-likelihood (nats a token) of every option, batch by batch, by the item's place."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if device == "cpu":
        torch.set_num_threads(threads)
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype))
    model.eval().requires_grad_(False).to(device)
    prompts = [chat_ids(tokenizer, prompt_of_item(item), generate=True) for item in items]
    options = [
        [tokenizer.encode(option, add_special_tokens=False) for option in item.options]
        for item in items
    ]
    # Items of like length share a batch, so little is spent on padding.
    order = sorted(range(len(items)), key=lambda i: len(prompts[i]))
    for start in range(0, len(order), batch):
        chosen = order[start : start + batch]
        found = _score(
            model, [prompts[i] for i in chosen], [options[i] for i in chosen], tokenizer, device
        )
        yield dict(zip(chosen, found, strict=True))


def best_option(scores: Sequence[float]) -> int:
    """The most likely option; the first of equals."""
    return max(range(len(scores)), key=lambda i: scores[i])


@torch.no_grad()
def _score(
    model: Any,
    prompts: Sequence[list[int]],
    options: Sequence[Sequence[list[int]]],
    tokenizer: Any,
    device: str,
) -> list[tuple[float, ...]]:
    """Scores [B][3] of one batch."""
    count = len(options[0])
    ids, attention = padded(prompts, tokenizer.pad_token_id)
    read = model(input_ids=ids.to(device), attention_mask=attention.to(device), use_cache=True)
    lengths = attention.sum(1).to(device)
    rows = torch.arange(len(prompts), device=device)
    first_logits = read.logits[rows, lengths - 1]  # [B, V]: predicts each option's first token
    cache = read.past_key_values
    cache.batch_repeat_interleave(count)
    answer, answer_mask = padded([o for per in options for o in per], tokenizer.pad_token_id)
    answer, answer_mask = answer.to(device), answer_mask.to(device)
    spread = attention.to(device).repeat_interleave(count, 0)
    # Prompts are padded on the right, so an option's positions continue from its own prompt's end.
    positions = lengths.repeat_interleave(count)[:, None] + torch.arange(
        answer.shape[1], device=device
    )
    written = model(
        input_ids=answer,
        attention_mask=torch.cat([spread, answer_mask], 1),
        position_ids=positions,
        past_key_values=cache,
        use_cache=True,
    ).logits
    logits = torch.cat([first_logits.repeat_interleave(count, 0)[:, None], written[:, :-1]], 1)
    logprobs = token_logprobs(logits, answer) * answer_mask
    means: Tensor = logprobs.sum(1) / answer_mask.sum(1)
    return [tuple(row) for row in means.view(len(prompts), count).tolist()]
