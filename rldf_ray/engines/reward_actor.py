"""A reward model as an engine: a Ray actor that answers a conversation with its reward.

The last message of a request is what is scored, those before it are the prompt. The answer's text
is the reward, or empty where the prompt leaves no room for the last message.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import Any

from rldf_ray.engines.transport import RequestServer
from rldf_ray.models.base import ChatRequest, Completion, Usage


@dataclass(frozen=True, kw_only=True)
class RewardSettings:
    """What the actor loads.

    Attributes:
        folder: the model's, or its address in an object store.
        name, revision: what answers are recorded under; the revision identifies the weights.
        device: "cpu" or "cuda".
        threads: torch threads on a CPU.
        max_length: longest input, tokens.
        max_num_seqs: requests that may wait in the actor.
    """

    folder: str
    name: str
    revision: str
    device: str
    threads: int
    max_length: int
    max_num_seqs: int


class RewardActor:
    """Scores one conversation at a time.

    Alone, each in a forward pass of its own: a reward then does not depend on what else is asked,
    and a run that is begun again finds the same ones.
    """

    def __init__(self, settings: RewardSettings) -> None:
        from rldf_ray.models.reward_score import reward_model

        self._server = RequestServer(self.complete)
        self._settings = settings
        self._turn = asyncio.Lock()
        self._model: Any = reward_model(
            settings.folder, settings.device, settings.threads, settings.max_length
        )

    async def ready(self) -> str:
        return self._settings.name

    async def listen(self, secret: bytes) -> tuple[str, int]:
        """Host and port at which `complete` can be asked by those who know `secret`."""
        return await self._server.open(secret)

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        *prompt, last = [{"role": m.role, "content": m.content} for m in request.messages]
        async with self._turn:
            reward, tokens = await asyncio.to_thread(
                self._model.score_answer, prompt, last["content"]
            )
        answer = Completion(
            text="" if reward is None else repr(reward),
            finish_reason="stop",
            usage=Usage(prompt=tokens),
            model=self._settings.name,
            revision=self._settings.revision,
        )
        return (answer,)

    async def pid(self) -> int:
        """The process to kill, for those who want to see what happens then."""
        return os.getpid()

    def close(self) -> None:
        pass
