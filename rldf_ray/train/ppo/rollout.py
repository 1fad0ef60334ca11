"""Rollouts: prompts answered by the engines, and their token tensors for training.

The ids the engine produced are the ids PPO trains on; nothing is tokenised again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rldf_ray.loops import complete
from rldf_ray.models.base import ChatModel, ChatRequest, Completion, Message, seed_of
from rldf_ray.models.reward_score import padded
from rldf_ray.plan import PPOSection
from rldf_ray.train.ppo.prompts import Prompts


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """One answered prompt, as the engine consumed and produced it."""

    prompt_ids: tuple[int, ...]
    answer_ids: tuple[int, ...]
    engine_logprobs: tuple[float, ...]
    text: str
    ended: bool


@dataclass(frozen=True, kw_only=True)
class Batch:
    """A micro-batch of rollouts, right-padded, T = longest prompt and answer.

    Attributes:
        ids, attention: int64 [B, T].
        mask: bool [B, T-1]; column t is True where token t+1 is the answer's.
        engine_logprobs: float32 [B, T-1], 0 where masked.
        prompts_shared: whether rows beside each other answer the same prompt.
    """

    ids: Tensor
    attention: Tensor
    mask: Tensor
    engine_logprobs: Tensor
    prompts_shared: bool

    def to(self, device: str) -> Batch:
        return Batch(
            ids=self.ids.to(device),
            attention=self.attention.to(device),
            mask=self.mask.to(device),
            engine_logprobs=self.engine_logprobs.to(device),
            prompts_shared=self.prompts_shared,
        )


def prompt_order(topics: Sequence[str], asked: int, seed: int) -> list[int]:
    """Which prompt is asked when: every prompt once in a shuffled pass, pass after pass.

    A topic's prompts follow one another, so that steps ask scenes both with and without their
    clue: what is right for one is wrong for the other, and a step with more of one kind would
    move the policy by what the kind is, not by what was answered.

    Args:
        topics: the topic of every prompt.
    """
    generator = np.random.default_rng(seed)
    by_topic: dict[str, list[int]] = {}
    for prompt, topic in enumerate(topics):
        by_topic.setdefault(topic, []).append(prompt)
    together = list(by_topic.values())
    order: list[int] = []
    while len(order) < asked:
        for place in generator.permutation(len(together)):
            order += together[place]
    return order[:asked]


Answers = tuple[list[Rollout], list[Rollout]]


class RolloutSource:
    """What one worker's share of every step's prompts is answered with."""

    def __init__(
        self,
        model: ChatModel,
        prompts: Prompts,
        section: PPOSection,
        seed: int,
        rank: int,
        workers: int,
    ) -> None:
        self._model, self._section, self._seed = model, section, seed
        self._rank, self._workers, self._prompts = rank, workers, prompts
        asked = section.episodes // section.answers_per_prompt
        self._order = prompt_order([row["topic_id"] for row in prompts.train], asked, seed)
        self._thread = ThreadPoolExecutor(1)
        self._begun: dict[int, Future[Answers]] = {}

    def rows_of(self, step: int) -> list[dict[str, Any]]:
        """This worker's prompts of a step, in the order of its rollouts."""
        each = self._section.answers_per_prompt
        return [self._prompts.train[self._order[e // each]] for e in self._episodes(step)]

    @property
    def held_out_rows(self) -> Sequence[dict[str, Any]]:
        """This worker's held-out prompts."""
        return self._prompts.held_out[self._rank :: self._workers]

    def policy_of(self, step: int) -> int:
        """After how many steps the policy is that answers `step`, before `of` hands them out."""
        return step - 1 if step in self._begun else step

    def of(self, step: int) -> Answers:
        """Answers to the prompts of `step` and to the held-out ones, by the engines' policy."""
        begun = self._begun.pop(step, None)
        return complete(self._answer(step)) if begun is None else begun.result()

    def begin(self, step: int) -> None:
        """With `ppo.overlap`, let the engines answer `step` while the trainer works."""
        if self._section.overlap and step * self._section.rollout_batch < self._section.episodes:
            self._begun[step] = self._thread.submit(lambda: complete(self._answer(step)))

    def settle(self) -> None:
        """Wait for what is under way: answers must not change their policy half-way."""
        wait(self._begun.values())

    def state_dict(self) -> dict[int, Answers]:
        """Rollouts that were answered and not yet trained on, by step."""
        return {step: begun.result() for step, begun in self._begun.items()}

    def load_state_dict(self, state: dict[int, Answers]) -> None:
        for step, answers in state.items():
            self._begun[step] = Future()
            self._begun[step].set_result(answers)

    async def _answer(self, step: int) -> Answers:
        addresses = [f"ppo/{step}/{episode}" for episode in self._episodes(step)]
        held_out = self.held_out_rows
        # The same seeds at every step: what changes is the policy.
        held_addresses = [
            f"ppo/held-out/{i * self._workers + self._rank}" for i in range(len(held_out))
        ]
        rollouts = await generate(
            self._model,
            [row["prompt"] for row in (*self.rows_of(step), *held_out)],
            [*addresses, *held_addresses],
            self._section,
            self._seed,
        )
        return rollouts[: len(addresses)], rollouts[len(addresses) :]

    def _episodes(self, step: int) -> list[int]:
        """This worker's; all answers to a prompt are one worker's, one after the other."""
        each = self._section.answers_per_prompt
        prompts = self._section.rollout_batch // each
        asked = range(step * prompts + self._rank, (step + 1) * prompts, self._workers)
        return [prompt * each + answer for prompt in asked for answer in range(each)]


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
        prompt_ids=completion.prompt_ids,
        answer_ids=completion.token_ids,
        engine_logprobs=completion.logprobs,
        text=completion.text,
        ended=completion.finish_reason == "stop",
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
    shared = any(one.prompt_ids == other.prompt_ids for one, other in pairwise(rollouts))
    return Batch(
        ids=ids, attention=attention, mask=mask, engine_logprobs=engine, prompts_shared=shared
    )


def in_batches(rollouts: Sequence[Rollout], size: int, pad_id: int) -> Iterator[Batch]:
    """Micro-batches in order. Old and new log-probabilities are computed in these same ones."""
    for i in range(0, len(rollouts), size):
        yield batch_of(rollouts[i : i + size], pad_id)
