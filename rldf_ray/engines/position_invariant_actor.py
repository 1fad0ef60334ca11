"""A position-invariant model as an engine: a Ray actor that answers one request at a time."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import Any

from rldf_ray.engines.transport import RequestServer
from rldf_ray.models.base import ChatRequest, Completion


@dataclass(frozen=True, kw_only=True)
class PositionInvariantSettings:
    """What the actor loads.

    Attributes:
        model: a folder or hub id, or "embedded".
        name: what answers are recorded under.
        invariant: False is stock attention, the control.
        threads: torch threads on a CPU; None lets torch say.
        longest: tokens of a prompt and its answer.
        max_num_seqs: requests that may wait in the actor.
    """

    model: str
    name: str
    device: str
    dtype: str
    invariant: bool
    threads: int | None
    longest: int
    max_num_seqs: int
    chat_template_kwargs: dict[str, Any] | None = None


class PositionInvariantActor:
    """Answers requests alone, so that an answer depends on nothing but its request."""

    def __init__(self, settings: PositionInvariantSettings) -> None:
        import torch

        from rldf_ray.models.position_invariant_chat import PositionInvariantChat

        if settings.threads is not None:
            torch.set_num_threads(settings.threads)
        self._server = RequestServer(self.complete)
        self._settings = settings
        self._turn = asyncio.Lock()
        self._model = PositionInvariantChat(
            settings.model,
            name=settings.name,
            revision="base",
            device=settings.device,
            dtype=settings.dtype,
            invariant=settings.invariant,
            longest=settings.longest,
            template_values=settings.chat_template_kwargs,
        )

    async def ready(self) -> str:
        return self._settings.name

    async def listen(self, secret: bytes) -> tuple[str, int]:
        """Host and port at which `complete` can be asked by those who know `secret`."""
        return await self._server.open(secret)

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        async with self._turn:
            return await asyncio.to_thread(self._model.answer, request)

    async def pid(self) -> int:
        """The process to kill, for those who want to see what happens then."""
        return os.getpid()

    def close(self) -> None:
        pass
