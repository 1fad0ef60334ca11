"""The engines and the reward model as the API reaches them: by their Serve handles."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from contextvars import Context
from typing import Any

from ray import serve
from ray.exceptions import RayActorError, RayTaskError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError, RayServeException
from ray.serve.handle import DeploymentHandle

from rldf_ray.apps.serve.engines import (
    EngineDiedError,
    EngineFailedError,
    EngineGoneError,
    EngineRefusedError,
    EngineRequest,
    Stream,
    Target,
    raise_if_error,
)
from rldf_ray.apps.serve.keys import Key
from rldf_ray.apps.serve.limits import LimitsGoneError
from rldf_ray.apps.serve.routes import Routes
from rldf_ray.apps.serve.settings import Settings
from rldf_ray.apps.serve.store import StoreError
from rldf_ray.apps.serve.together import together
from rldf_ray.errors import UserError
from rldf_ray.models.chat_template import ChatTemplateError

READY_TIMEOUT_S = 5.0
LOOK_EVERY_S = 1.0
LOOK_SELDOM_S = 10.0

log = logging.getLogger("rldf.serve")


class ServeEngines:
    """Engines that are Serve applications of their own, found by name."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._up: set[str] = set()
        self._handles: dict[str, DeploymentHandle[Any]] = {}
        self._asking: dict[str, asyncio.Task[DeploymentHandle[Any]]] = {}

    async def generate(self, target: Target, request: EngineRequest) -> Stream:
        handle: DeploymentHandle[Any] | None = None
        response: Any = None
        try:
            handle = await self._handle(target.engine)
            response = handle.generate.remote(request)
            async for piece in response:
                raise_if_error(piece)
                yield piece
        except _GONE as error:
            if self._handles.get(target.engine) is handle:
                self._handles.pop(target.engine, None)
            gone = EngineDiedError if isinstance(error, RayActorError) else EngineGoneError
            raise gone(f"the engine of {target.model} is gone") from error
        except RayTaskError as error:
            log.exception("the engine of %s failed", target.model)
            raise EngineFailedError(f"the engine of {target.model} failed") from error
        finally:
            if response is not None:
                _cancel(response)

    async def generating(self, names: Sequence[str]) -> list[int | None]:
        return list(await asyncio.gather(*(self._running(name) for name in names)))

    def up(self, name: str) -> bool:
        """Whether the engine answered at the last look."""
        return name in self._up

    async def watch(self, routes: Routes) -> None:
        """Look which of the engines answer, for as long as this replica lives.

        Once a second while a model has several to choose from, else seldom: of a single one,
        requests wait.
        """
        due = 0.0
        while True:
            try:
                engines = [list(routes.engines(model)) for model in self._settings.models]
                if time.monotonic() >= due or any(len(found) > 1 for found in engines):
                    self._up = await self._answering({n for found in engines for n in found})
                    due = time.monotonic() + LOOK_SELDOM_S
            except (OSError, StoreError):
                log.exception("the store cannot be read; engines stay as they are")
            await asyncio.sleep(LOOK_EVERY_S)

    async def _answering(self, names: set[str]) -> set[str]:
        answers = zip(names, await self.generating(list(names)), strict=True)
        return {name for name, generating in answers if generating is not None}

    async def _running(self, name: str) -> int | None:
        try:
            async with asyncio.timeout(READY_TIMEOUT_S):
                handle = await self._handle(name)
                running: int = await handle.options(stream=False).running.remote()
        except (TimeoutError, RayTaskError, *_GONE):
            return None
        return running

    async def _handle(self, name: str) -> DeploymentHandle[Any]:
        """The handle of an engine; Serve is asked for it once, for all that wait.

        A context of its own: Ray ends what a request has begun with it.

        Raises:
            RayServeException: there is no such engine.
        """
        if name in self._handles:
            return self._handles[name]
        if name not in self._asking:
            asking = asyncio.get_running_loop().create_task(self._asked(name), context=Context())
            self._asking[name] = asking
            asking.add_done_callback(lambda task: self._told(name, task))
        return await asyncio.shield(self._asking[name])

    async def _asked(self, name: str) -> DeploymentHandle[Any]:
        # Serve's own call waits for its controller, and would keep all other requests waiting.
        handle = await asyncio.to_thread(
            serve.get_app_handle, engine_app_name(self._settings, name)
        )
        return handle.options(stream=True)

    def _told(self, name: str, task: asyncio.Task[DeploymentHandle[Any]]) -> None:
        del self._asking[name]
        if not task.cancelled() and task.exception() is None:
            self._handles[name] = task.result()


_GONE = (RayActorError, BackPressureError, DeploymentUnavailableError, RayServeException)


def engine_app_name(settings: Settings, engine: str) -> str:
    """The Serve application of an engine."""
    return f"{settings.name}-{engine}"


class RefereeRewards:
    """The trained referee's deployment."""

    def __init__(self, handle: DeploymentHandle[Any]) -> None:
        self._handle = handle

    async def reward(self, prompt: Sequence[dict[str, str]], text: str) -> tuple[float | None, int]:
        try:
            found: tuple[float | None, int] = await _kept(
                self._handle.reward.remote(list(prompt), text)
            )
        except (RayTaskError, *_GONE) as error:
            raise _without_reward(error, "the trained referee") from error
        return found


class RewardScorer:
    """The reward deployment, one call a text; it batches them itself."""

    def __init__(self, handle: DeploymentHandle[Any]) -> None:
        self._handle = handle

    async def score(self, prompt: str, texts: Sequence[str]) -> list[float | None]:
        try:
            return await together(
                *(_kept(self._handle.score.remote(prompt, text)) for text in texts)
            )
        except (RayTaskError, *_GONE) as error:
            raise _without_reward(error, "the reward model") from error


def _without_reward(error: Exception, model: str) -> UserError:
    """What a caller is told: that the text cannot be scored, or what has become of the model."""
    if not isinstance(error, RayTaskError):
        return EngineGoneError(f"{model} is gone")
    if isinstance(error.cause, ChatTemplateError):
        return EngineRefusedError(400, f"this text cannot be scored: {error.cause}", "input")
    log.error("%s failed", model, exc_info=error)
    return EngineFailedError(f"{model} failed")


class SharedLimits:
    """The limits of all API replicas together, counted in a deployment of its own.

    A key without limits needs none of it.
    """

    def __init__(self, handle: DeploymentHandle[Any]) -> None:
        self._handle = handle
        self._settling: set[asyncio.Task[None]] = set()

    async def admit(self, key: Key) -> float:
        if key.requests_per_minute is None and key.tokens_per_minute is None:
            return 0.0
        return await self._asked(self._handle.admit.remote(key))

    async def reserve(self, key: Key, tokens: int) -> float:
        if key.tokens_per_minute is None:
            return 0.0
        return await self._asked(self._handle.reserve.remote(key, tokens))

    async def settle(self, key: Key, used: int, reserved: int = 0) -> None:
        """Returns at once. A context of its own: Serve ends the calls of a request with it."""
        if key.tokens_per_minute is None:
            return
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._settle(key, used, reserved), context=Context())
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)

    async def _settle(self, key: Key, used: int, reserved: int) -> None:
        try:
            await self._handle.settle.remote(key, used, reserved)
        except (RayTaskError, *_GONE):
            log.exception("%d tokens of key %s were not counted", used, key.name)

    async def _asked(self, call: Any) -> float:
        try:
            async with asyncio.timeout(READY_TIMEOUT_S):
                wait_s: float = await _kept(call)
        except (TimeoutError, RayTaskError, *_GONE) as error:
            raise LimitsGoneError("the limits of keys cannot be read now: ask again") from error
        return wait_s


async def _kept(call: Any) -> Any:
    """The answer to a call of a deployment, which is cancelled there if nobody waits for it."""
    try:
        return await call
    except BaseException:
        _cancel(call)
        raise


def _cancel(call: Any) -> None:
    """End a call of a deployment. Of one that failed to begin, Serve raises its error again."""
    with suppress(Exception):
        call.cancel()
