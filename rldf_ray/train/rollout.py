"""Rollouts: prompts answered by the engines, and their token tensors for training.

The ids the engine produced are the ids PPO trains on; nothing is tokenised again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rldf_ray.debate.agents import seed_of
from rldf_ray.models.base import ChatModel, ChatRequest, Completion, Message
from rldf_ray.models.reward_score import padded
from rldf_ray.plan import PPOSection


@dataclass(frozen=True)
class Rollout:
    """One answered prompt, as the engine consumed and produced it."""

    prompt_ids: tuple[int, ...]
    answer_ids: tuple[int, ...]
    engine_logprobs: tuple[float, ...]
    text: str
    ended: bool


@dataclass(frozen=True)
class Batch:
    """A micro-batch of rollouts, right-padded, T = longest prompt and answer.

    Attributes:
        ids, attention: int64 [B, T].
        mask: bool [B, T-1]; column t is True where token t+1 is the answer's.
        engine_logprobs: float32 [B, T-1], 0 where masked.
    """

    ids: Tensor
    attention: Tensor
    mask: Tensor
    engine_logprobs: Tensor

    def to(self, device: str) -> Batch:
        return Batch(
            self.ids.to(device),
            self.attention.to(device),
            self.mask.to(device),
            self.engine_logprobs.to(device),
        )


def prompt_order(prompts: int, episodes: int, seed: int) -> list[int]:
    """Which prompt each episode answers: every prompt once in a shuffled pass, pass after pass."""
    generator = np.random.default_rng(seed)
    passes = -(-episodes // prompts)
    order = np.concatenate([generator.permutation(prompts) for _ in range(passes)])
    return [int(i) for i in order[:episodes]]


async def generate(
    model: ChatModel,
    prompts: Sequence[Sequence[dict[str, str]]],
    addresses: Sequence[str],
    section: PPOSection,
    seed: int,
) -> list[Rollout]:
    """Answer prompts at the policy's own sampling distribution (no nucleus, no guide)."""
    answers = await asyncio.gather(
        *(
            model.complete(
                ChatRequest(
                    messages=tuple(Message(m["role"], m["content"]) for m in prompt),  # type: ignore[arg-type]
                    max_tokens=section.max_tokens,
                    temperature=section.temperature,
                    seed=seed_of(seed, address),
                    logprobs=True,
                    address=address,
                )
            )
            for prompt, address in zip(prompts, addresses, strict=True)
        )
    )
    return [_rollout(completion) for (completion,) in answers]


def _rollout(completion: Completion) -> Rollout:
    assert completion.logprobs is not None
    return Rollout(
        completion.prompt_ids,
        completion.token_ids,
        completion.logprobs,
        completion.text,
        completion.finish_reason == "stop",
    )


def batch_of(rollouts: Sequence[Rollout], pad_id: int) -> Batch:
    """Right-padded tensors of some rollouts."""
    ids, attention = padded([[*r.prompt_ids, *r.answer_ids] for r in rollouts], pad_id)
    mask = torch.zeros(ids.shape[0], ids.shape[1] - 1, dtype=torch.bool)
    engine = torch.zeros(mask.shape)
    for row, rollout in enumerate(rollouts):
        begin = len(rollout.prompt_ids) - 1
        end = begin + len(rollout.answer_ids)
        mask[row, begin:end] = True
        engine[row, begin:end] = torch.tensor(rollout.engine_logprobs)
    return Batch(ids, attention, mask, engine)


def in_batches(rollouts: Sequence[Rollout], size: int, pad_id: int) -> Iterator[Batch]:
    """Micro-batches in order. Old and new log-probabilities are computed in these same ones."""
    for i in range(0, len(rollouts), size):
        yield batch_of(rollouts[i : i + size], pad_id)
