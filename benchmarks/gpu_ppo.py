"""The PPO step and the reward model's scores as work to be measured, with their operations."""

from __future__ import annotations

import math
import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.gpu_flops import Read, Size, backward, forward
from benchmarks.gpu_models import RANK, TOKENS, Case, job_of, ours, peft
from benchmarks.gpu_timing import Work
from rldf_ray.train.ppo.models import PPOModels
from rldf_ray.train.ppo.rollout import Rollout
from rldf_ray.train.ppo.step import PPO

SIDES: dict[str, Callable[..., PPOModels]] = {"ours": ours, "peft": peft}


@dataclass(frozen=True, kw_only=True)
class MeasuredStep:
    """A PPO step of one side.

    Attributes:
        side: of `SIDES`.
        dtype: "bfloat16" or "float32".
        prompt, answer: tokens of every rollout.
    """

    case: Case
    side: str
    size: Size
    device: str
    dtype: str
    prompt: int
    answer: int

    def works(self) -> Iterator[tuple[str, Work]]:
        """Scores of a step's rollouts, and the step."""
        ppo = self.ppo()
        tokens = self.size.rollouts * (self.prompt + self.answer)

        def inputs(number: int) -> tuple[list[Rollout], Tensor]:
            # Others every time: what the layers below all adapters make of a batch is remembered.
            draw = torch.Generator().manual_seed(number)
            return self.rollouts(number), torch.randn(self.size.rollouts, generator=draw)

        yield (
            "scores",
            Work(
                tokens=tokens,
                flops=self.score_flops(),
                prepare=self.rollouts,
                run=ppo.score,
            ),
        )
        yield (
            "step",
            Work(
                tokens=tokens,
                flops=self.step_flops(),
                prepare=inputs,
                run=lambda given: ppo.step(*given),
            ),
        )

    def ppo(self) -> PPO:
        """The product's step with this side's models."""
        with tempfile.TemporaryDirectory(prefix="rldf-bench-") as folder:
            job = job_of(self.case, self.size, self.device, self.dtype, Path(folder))
            return PPO(job, SIDES[self.side](job, self.size))

    def rollouts(self, seed: int) -> list[Rollout]:
        """Random answers to random prompts, those to one prompt one after the other."""
        draw, words = random.Random(seed), self.size.words

        def ids(length: int) -> tuple[int, ...]:
            return tuple(draw.randrange(len(TOKENS), words) for _ in range(length))

        prompts = [ids(self.prompt) for _ in range(self.size.rollouts // self.case.answers)]
        return [
            Rollout(
                prompt_ids=prompt,
                answer_ids=ids(self.answer),
                engine_logprobs=(-math.log(words),) * self.answer,
                text="",
                ended=True,
            )
            for prompt in prompts
            for _ in range(self.case.answers)
        ]

    def score_flops(self) -> float:
        """One pass under an adapter. The chat template ends an answer with one more token."""
        size, upper = self.size, self.case.adapted(self.size)
        read = self._read(self.answer + 1)
        return forward(size, read, size.layers - upper) + forward(size, read, upper, RANK)

    def step_flops(self) -> float:
        """Passes of actor, reference and critic. The last token of a row is not read."""
        size, upper = self.size, self.case.adapted(self.size)
        body = self._read(self.answer - 1)
        scored = self._read(self.answer - 1, size.rollouts * self.answer)
        below = forward(size, body, size.layers - upper)
        trained = forward(size, scored, upper, RANK) + backward(size, scored, upper, RANK)
        passes = 2
        if self.case.answers == 1:
            trained += forward(size, body, upper, RANK) + backward(size, body, upper, RANK)
            passes = 3
        if self.side == "ours":
            return below + trained + forward(size, scored, upper, RANK)
        return passes * below + trained + forward(size, scored, upper)

    def _read(self, answer: int, scored: int = 0) -> Read:
        """What a pass over the rollouts reads, so many tokens of every answer."""
        rollouts, answers = self.size.rollouts, self.case.answers
        if self.side == "ours" and answers > 1:
            return Read.prompts_once(rollouts // answers, self.prompt, answers, answer, scored)
        return Read.rows(rollouts, self.prompt + answer, scored)
