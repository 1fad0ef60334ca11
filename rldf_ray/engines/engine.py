"""One engine: a Ray actor that answers requests, and the one that takes its place when it dies.

Ray starts the actor and says why it died; requests go over a socket of their own (`transport.py`).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import (
    ActorUnschedulableError,
    GetTimeoutError,
    ObjectLostError,
    RayActorError,
    RayTaskError,
)

from rldf_ray.cluster.nodes import NODE_DEADLINE_S
from rldf_ray.engines.sent import Sent
from rldf_ray.engines.transport import ClientConnection
from rldf_ray.models.base import ChatRequest, Completion, EngineDiedError, ModelError

# Ray does not tell an actor that waits for a node, which may have to be added, from one that loads.
START_DEADLINE_S = NODE_DEADLINE_S + 900.0
CLOSE_DEADLINE_S = 30.0
REASON_DEADLINE_S = 5.0
DEATHS = (RayActorError, ObjectLostError)

log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class Engine:
    """An actor made by `start`, made again when it dies, at most `restarts` times.

    Attributes:
        name: what messages call it.
        start: makes the actor; returns at once, while the actor comes up by itself.
        generation: how often it has been started.
    """

    name: str
    start: Callable[[], Any]
    restarts: int
    timeout_s: float
    generation: int = 0
    _actor: Any = None
    _ready: bool = False
    _connection: ClientConnection | None = None
    _connecting: asyncio.Task[ClientConnection] | None = None
    _weights: tuple[str, str, str, Sent | None] | None = None
    _deaths: list[str] = field(default_factory=list)

    def begin(self) -> None:
        """Start the actor without waiting for it."""
        self._ready, self._actor, self._connection = False, self.start(), None
        self.generation += 1

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        """The actor's answer.

        Raises:
            EngineDiedError: the actor is dead; after `replace` the same request may be sent again.
            ModelError: it answered nobody for `timeout_s`, or says that it cannot answer.
        """
        try:
            if not self._ready:
                await self._up()
            connection = await self._connected()
        except DEATHS as error:
            raise EngineDiedError(_reason(error)) from None
        try:
            return await connection.ask(request, self.timeout_s)
        except TimeoutError:
            raise ModelError(
                f"{self.name} gave no answer to any request in {self.timeout_s:g} s "
                "(engines.request_timeout_s): it hangs, or needs longer, and then fewer requests "
                "at once (engines.max_num_seqs); its log is in the run's logs folder"
            ) from None

    async def bring_up(self) -> None:
        """Return once the actor is up; one that was never started is started first.

        Raises:
            ModelError: it did not start; the message has the reason.
        """
        if self._actor is None:
            self.begin()
        try:
            await self._up()
        except DEATHS as error:
            raise ModelError(f"{self.name} did not start: {_reason(error)}") from None

    async def replace(self, reason: str) -> None:
        """Start a new actor in place of the dead one; returns when it is up.

        Raises:
            ModelError: it has died more than `restarts` times.
        """
        reason = await self._rays_reason() or reason
        while True:
            self._restart(reason)
            try:
                await self._up()
            except DEATHS as error:
                reason = _reason(error)
            else:
                log.warning("%s is up again", self.name)
                return

    def wait_until_ready(self) -> None:
        """Block until the actor is up.

        Raises:
            ModelError: it did not start; the message has the actor's own reason.
        """
        try:
            ray.get(self._actor.ready.remote(), timeout=START_DEADLINE_S)
        except (GetTimeoutError, ActorUnschedulableError):
            raise ModelError(_not_started(self.name)) from None
        except DEATHS as error:
            raise ModelError(
                f"{self.name} did not start: {_reason(error)}; the run's logs folder has its log"
            ) from error
        self._ready = True

    def node(self) -> Any:
        """Begin to ask for Ray's id of the actor's node; returns a Ray reference."""
        return self._actor.node.remote()

    def load(
        self, folder: str, revision: str, sent: Sent | None = None, *, adapter: bool = False
    ) -> Any:
        """Begin to load new weights (or a LoRA adapter), which a restart will load as well.

        Args:
            sent: what is in `folder`, where the actor's node may not have it.

        Returns a Ray reference.
        """
        self._weights = ("sync_adapter" if adapter else "sync_weights", folder, revision, sent)
        return self._load()

    def sleep(self) -> Any:
        """Begin to give memory back; returns a Ray reference."""
        return self._actor.sleep.remote()

    def wake(self) -> Any:
        """Begin to take it again; returns a Ray reference."""
        return self._actor.wake.remote()

    def end(self) -> None:
        """Close the actor in order, so that its memory is free when this returns."""
        if self._actor is None:
            return
        try:
            if self._ready:
                ray.get(self._actor.close.remote(), timeout=CLOSE_DEADLINE_S)
        except (*DEATHS, RayTaskError, GetTimeoutError):
            pass  # dead or hung: killed below either way
        ray.kill(self._actor)
        self._actor = None

    async def _up(self) -> None:
        try:
            await asyncio.wait_for(_wait(self._actor.ready.remote()), START_DEADLINE_S)
            if self._weights is not None:
                await _wait(self._load())
        except (TimeoutError, ActorUnschedulableError):
            raise ModelError(_not_started(self.name)) from None
        self._ready = True

    async def _connected(self) -> ClientConnection:
        """The connection to the actor in this event loop, made by whoever needs it first."""
        loop = asyncio.get_running_loop()
        if self._connection is not None and self._connection.loop is loop:
            return self._connection
        if self._connecting is None or self._connecting.get_loop() is not loop:
            self._connecting = loop.create_task(self._connect())
        return await asyncio.shield(self._connecting)

    async def _connect(self) -> ClientConnection:
        secret = secrets.token_bytes(32)
        try:
            host, port = await self._actor.listen.remote(secret)
            self._connection = await ClientConnection.to(host, port, secret)
            return self._connection
        finally:
            self._connecting = None

    async def _rays_reason(self) -> str:
        """Why the actor died, as Ray reports it; nothing where Ray takes it to be alive."""
        try:
            await asyncio.wait_for(_wait(self._actor.ready.remote()), REASON_DEADLINE_S)
        except DEATHS as error:
            return _reason(error)
        except (TimeoutError, RayTaskError):
            pass
        return ""

    def __getstate__(self) -> dict[str, Any]:
        """Another process makes a connection of its own."""
        return {**self.__dict__, "_connection": None, "_connecting": None}

    def _load(self) -> Any:
        assert self._weights is not None
        method, *given = self._weights
        return getattr(self._actor, method).remote(*given)

    def _restart(self, reason: str) -> None:
        self._deaths.append(reason)
        if len(self._deaths) > self.restarts:
            raise ModelError(
                f"{self.name} died {len(self._deaths)} times (engines.restarts={self.restarts}): "
                f"{reason}; its log is in the run's logs folder, and the same command continues "
                "from what was finished"
            )
        log.warning("%s died, starting it again: %s", self.name, reason)
        # What cannot be reached need not be dead: two engines would share one engine's memory.
        ray.kill(self._actor)
        self.begin()


async def _wait(reference: Any) -> None:
    await reference


def _reason(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def _not_started(name: str) -> str:
    return (
        f"{name} did not start: Ray has no node with room for it and adds none, or its model took "
        f"longer than {START_DEADLINE_S:g} s (that of a node to come included) to load; `rldf "
        "doctor PLAN` says what fits, `ray status` what the cluster waits for"
    )
