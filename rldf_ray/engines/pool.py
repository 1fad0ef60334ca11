"""Engines on a Ray cluster behind the one `ChatModel` interface.

debates --> EnginePool --(seats: affinity by debate, spill when full, queue)--> Engine 0..n-1
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import GetTimeoutError

from rldf_ray.engines.engine import DEATHS, Engine
from rldf_ray.engines.position_invariant_actor import (
    PositionInvariantActor,
    PositionInvariantSettings,
)
from rldf_ray.engines.reward_actor import RewardActor, RewardSettings
from rldf_ray.engines.scripted_actor import ScriptedActor, ScriptedSettings
from rldf_ray.engines.seats import Seats
from rldf_ray.engines.sent import Sent, send, this_node
from rldf_ray.engines.vllm_actor import EngineSettings, VllmActor
from rldf_ray.models.base import ChatRequest, Completion, EngineDiedError, ModelError

Settings = EngineSettings | ScriptedSettings | RewardSettings | PositionInvariantSettings
ACTORS: dict[type[Settings], Any] = {
    EngineSettings: VllmActor,
    ScriptedSettings: ScriptedActor,
    RewardSettings: RewardActor,
    PositionInvariantSettings: PositionInvariantActor,
}

SYNC_DEADLINE_S = 300.0
# Beyond what an engine decodes together, so that it never waits for a request on its way.
BACKLOG = 0.25

log = logging.getLogger(__name__)


class EnginePool:
    """Sends each request to one of several engines, and again where that engine dies.

    Requests of the same affinity (a debate) stay on one engine, whose prefix cache holds their
    shared beginning, unless it is full and another one has room (`Seats`). An engine that dies is
    started again; a request sent to it goes to whichever engine has a seat, and as its seed is its
    own, the answer is the same. Of its engines those that have seats are started; one of the others
    is added whenever as many requests wait as it has seats.
    """

    def __init__(self, engines: list[Engine], name: str, seats: Seats) -> None:
        self._engines = engines
        self._name = name
        self._seats = seats
        self._replacing: set[int] = set()
        self._adding: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return self._name

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        while True:
            self._grow()
            place = await self._seats.take(request.affinity or request.address)
            engine = self._engines[place]
            generation = engine.generation
            try:
                return await engine.complete(request)
            except EngineDiedError as death:
                # Many requests see one death; the first one sees to it.
                if engine.generation == generation and place not in self._replacing:
                    await self._replace(place, str(death))
            finally:
                self._seats.leave(place)

    async def _replace(self, place: int, reason: str) -> None:
        self._replacing.add(place)
        self._seats.close(place)
        try:
            await self._engines[place].replace(reason)
        finally:
            self._replacing.discard(place)
            self._seats.open(place)

    def _grow(self) -> None:
        if (
            self._adding is None
            and self._seats.engines < len(self._engines)
            and self._seats.another_would_fill
        ):
            self._adding = asyncio.get_running_loop().create_task(self._add())

    async def _add(self) -> None:
        engine = self._engines[self._seats.engines]
        try:
            await engine.bring_up()
        except ModelError as error:
            log.warning("going on with %d engines: %s", self._seats.engines, error)
            engine.end()
            del self._engines[self._seats.engines :]
        else:
            self._seats.grow()
            log.info("%s is added to those that were full", engine.name)
        finally:
            self._adding = None
        self._grow()

    @property
    def _started(self) -> list[Engine]:
        return self._engines[: self._seats.engines]

    def wait_until_ready(self) -> None:
        """Block until all engines are up.

        Raises:
            ModelError: one did not start; the message has its own reason.
        """
        for engine in self._started:
            engine.wait_until_ready()

    def sync_weights(self, folder: str, revision: str, *, everywhere: bool = True) -> None:
        """Load new weights into every engine; returns when all of them answer with `revision`.

        Args:
            everywhere: every engine's machine has the folder, or can fetch it; else engines on
                other machines than this one are sent what is in it.

        Raises:
            ModelError: an engine died or did not load them in time.
        """
        sent = None if everywhere else self._sent(folder)
        loading = [engine.load(folder, revision, sent) for engine in self._started]
        self._wait(loading, "load new weights")

    def sync_adapter(self, folder: str, revision: str, *, everywhere: bool = True) -> None:
        """Like `sync_weights`, with a LoRA adapter on the weights the engines started with."""
        sent = None if everywhere else self._sent(folder)
        loading = [engine.load(folder, revision, sent, adapter=True) for engine in self._started]
        self._wait(loading, "load a new adapter")

    def _sent(self, folder: str) -> Sent | None:
        """What is in the folder, where an engine is on another node; else None."""
        nodes = self._wait([engine.node() for engine in self._started], "say where it is")
        return send(Path(folder)) if set(nodes) - {this_node()} else None

    def sleep(self) -> None:
        """Every engine gives back what memory it can, until `wake`; none may be answering.

        On a CPU its weights go, too: new ones have to be loaded after `wake`.

        Raises:
            ModelError: an engine died or did not do so in time.
        """
        self._wait([engine.sleep() for engine in self._started], "give its memory back")

    def wake(self) -> None:
        """Every engine is ready for new weights, and on a GPU for requests.

        Raises:
            ModelError: an engine died or did not wake in time.
        """
        self._wait([engine.wake() for engine in self._started], "wake up")

    def _wait(self, doing: Sequence[Any], what: str) -> list[Any]:
        try:
            done: list[Any] = ray.get(doing, timeout=SYNC_DEADLINE_S)
            return done
        except GetTimeoutError:
            raise ModelError(
                f"an engine of {self._name} did not {what} in {SYNC_DEADLINE_S:g} s"
            ) from None
        except DEATHS as error:
            raise ModelError(f"an engine of {self._name} died when it was to {what}") from error


@contextmanager
def engines(
    settings: Settings,
    *,
    name: str,
    count: int,
    most: int | None = None,
    num_cpus: float,
    num_gpus: float,
    pinned: Sequence[Mapping[str, float]] | None = None,
    timeout_s: float,
    restarts: int = 0,
) -> Iterator[EnginePool]:
    """Start `count` engines, hand them out as one pool while they come up, and end them.

    Args:
        most: how many there may come to be while requests wait; None is `count`.
        num_cpus, num_gpus: what Ray reserves for each engine.
        pinned: what else, engine by engine, so that each is on a node that has it.
        timeout_s: how long an engine that is up may answer nobody while it is asked.
        restarts: how often each engine is started again after it died.
    """
    made: Any = ray.remote(ACTORS[type(settings)])

    def start(resources: Mapping[str, float]) -> Any:
        return made.options(
            num_cpus=num_cpus,
            num_gpus=num_gpus,
            resources=dict(resources),
            max_concurrency=1000,
        ).remote(settings)

    number = most or count
    placed = [
        Engine(
            name=f"engine {place} of {name}",
            start=partial(start, resources),
            restarts=restarts,
            timeout_s=timeout_s,
        )
        for place, resources in enumerate(pinned or [{}] * number)
    ]
    try:
        for engine in placed[:count]:
            engine.begin()
        yield EnginePool(list(placed), name, Seats(count, seats_of(settings)))
    finally:
        for engine in placed:
            engine.end()


def seats_of(settings: Settings) -> int:
    """Requests that may be at one engine."""
    return settings.max_num_seqs + max(1, round(BACKLOG * settings.max_num_seqs))
