"""The scripted model as an engine: a Ray actor that takes its time and answers by a hash."""

from __future__ import annotations

import asyncio
import math
import os
import random
from dataclasses import dataclass

from rldf_ray.engines.transport import RequestServer
from rldf_ray.models.base import ChatRequest, Completion
from rldf_ray.models.scripted import ScriptedModel
from rldf_ray.storage.digest import digest


@dataclass(frozen=True)
class ScriptedSettings:
    """What a scripted engine pretends to be.

    Attributes:
        delay_s: mean time of one request, seconds.
        sigma: of the delay's log-normal distribution; 0 takes `delay_s` every time.
        max_num_seqs: requests worked on at once; more wait in the engine.
    """

    delay_s: float
    sigma: float = 0.0
    max_num_seqs: int = 64


class ScriptedActor:
    """Answers as `ScriptedModel` does, after a delay that belongs to the request's address."""

    def __init__(self, settings: ScriptedSettings) -> None:
        self._server = RequestServer(self.complete)
        self._settings = settings
        self._model = ScriptedModel()
        self._slots = asyncio.Semaphore(settings.max_num_seqs)
        self._busy_s = 0.0

    async def ready(self) -> str:
        return self._model.name

    async def listen(self, secret: bytes) -> tuple[str, int]:
        """Host and port at which `complete` can be asked by those who know `secret`."""
        return await self._server.open(secret)

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        async with self._slots:
            delay_s = delay_of(request, self._settings)
            await asyncio.sleep(delay_s)
            self._busy_s += delay_s
            return await self._model.complete(request)

    async def pid(self) -> int:
        """The process to kill, for those who want to see what happens then."""
        return os.getpid()

    async def busy_s(self) -> float:
        """Seconds of answering so far, summed over requests: what no overhead would have taken."""
        return self._busy_s

    def close(self) -> None:
        pass


def delay_of(request: ChatRequest, settings: ScriptedSettings) -> float:
    """Seconds; drawn by the request's address, so that a redo takes as long."""
    if settings.sigma == 0:
        return settings.delay_s
    chance = random.Random(digest(request.address, request.seed))
    # The mean of a log-normal distribution is exp(mu + sigma^2 / 2).
    mu = math.log(settings.delay_s) - settings.sigma**2 / 2
    return chance.lognormvariate(mu, settings.sigma)
