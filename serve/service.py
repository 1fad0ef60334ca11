"""What the routes share: the engines, the routes to them, and what a request costs."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from fastapi import Request

from rldf_ray.apps.serve.caller import Caller
from rldf_ray.apps.serve.engines import (
    EngineDiedError,
    EngineFailedError,
    EngineGoneError,
    EngineRequest,
    Engines,
    Kind,
    Piece,
    Stream,
    Target,
    begin,
    whole,
)
from rldf_ray.apps.serve.guard import error_content
from rldf_ray.apps.serve.metrics import Metrics
from rldf_ray.apps.serve.routes import Routes
from rldf_ray.apps.serve.settings import Settings
from rldf_ray.referee.trained import TrainedReferee

log = logging.getLogger("rldf.serve")

VERSION_HEADER = "x-rldf-version"
_RESPONSE_ENDS = ("event: response.completed", "event: response.incomplete")
# What an engine fails or dies of, it has read.
_READ_IT = (EngineFailedError, EngineDiedError)
_USAGE_ONLY = '"choices":[]'


class Scorer(Protocol):
    """The reward model, wherever it runs."""

    async def score(self, prompt: str, texts: Sequence[str]) -> Sequence[float | None]:
        """One reward for each text; higher is less biased. None where there is no room for it.

        Raises:
            EngineGoneError: the model is gone.
            EngineFailedError: it lives, and cannot score a text.
            EngineRefusedError: its chat template does not write a text as it is.
        """
        ...


@dataclass(kw_only=True)
class Service:
    settings: Settings
    engines: Engines
    routes: Routes
    scorer: Scorer | None
    metrics: Metrics
    trained: TrainedReferee | None = None
    debates: asyncio.Semaphore = field(init=False)
    debates_of: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.debates = asyncio.Semaphore(self.settings.limits.debates_in_flight)

    def deadline(self) -> float:
        """When a generation that begins now is cancelled, by the event loop's clock."""
        return asyncio.get_running_loop().time() + self.settings.limits.request_timeout_s

    async def answer(
        self,
        caller: Caller,
        model: str | None,
        kind: Kind,
        body: dict[str, Any],
    ) -> tuple[Target, dict[str, Any]]:
        """A whole answer, and where it came from.

        Raises:
            TimeoutError: not in time; the generation has been cancelled.
            EngineRefusedError, UnknownModelError: the request is wrong.
            EngineFailedError: the engine cannot answer it.
        """
        began = time.monotonic()
        try:
            async with asyncio.timeout_at(self.deadline()):
                target, found = await whole(
                    self.engines,
                    partial(self._target, caller, model),
                    lambda target: EngineRequest(kind, body, target.adapter),
                )
        except TimeoutError:
            self.metrics.cancelled.labels("timeout").inc()
            caller.cut_short()
            raise
        except _READ_IT:
            caller.cut_short()
            raise
        except asyncio.CancelledError:
            self.metrics.cancelled.labels("client").inc()
            raise
        self.metrics.first_piece.labels(target.model).observe(time.monotonic() - began)
        self._count(caller, target, found.get("usage"))
        return target, {**found, "model": target.model} if "model" in found else found

    async def stream(
        self,
        caller: Caller,
        model: str | None,
        kind: Kind,
        body: dict[str, Any],
        wants_usage: bool,
    ) -> tuple[Target, AsyncIterator[str]]:
        """Server-sent events of an answer, and where they come from, once the first is there.

        Raises:
            TimeoutError: nothing came in time; the generation has been cancelled.
            EngineRefusedError, UnknownModelError: the request is wrong.
            EngineFailedError: the engine cannot answer it.
        """
        began, deadline = time.monotonic(), self.deadline()
        try:
            async with asyncio.timeout_at(deadline):
                target, first, stream = await begin(
                    self.engines,
                    partial(self._target, caller, model),
                    lambda target: EngineRequest(kind, body, target.adapter),
                )
        except TimeoutError:
            self.metrics.cancelled.labels("timeout").inc()
            caller.cut_short()
            raise
        except _READ_IT:
            caller.cut_short()
            raise
        self.metrics.first_piece.labels(target.model).observe(time.monotonic() - began)
        return target, self._events(caller, target, first, stream, deadline, wants_usage)

    def _idle_deadline(self) -> float:
        return asyncio.get_running_loop().time() + self.settings.limits.idle_s

    def _target(self, caller: Caller, model: str | None, gone: Target | None) -> Target:
        """All that one caller asks of a model goes to one version, while its engine is there."""
        name = model or self.settings.default_model
        target = caller.targets.get(name)
        # Where another of its calls has chosen since, this one follows.
        if target is None or target is gone or not self.routes.stays(target):
            target = caller.targets[name] = self.routes.target(name)
        return target

    async def _events(
        self,
        caller: Caller,
        target: Target,
        first: Piece,
        stream: Stream,
        deadline: float,
        wants_usage: bool,
    ) -> AsyncIterator[str]:
        """Pieces as they come; what goes wrong now can only be told as an event."""
        usage: dict[str, Any] | None = None
        named, known = (f'"model":"{name}"' for name in (target.name, target.model))
        pieces, reason, sent = first, "client", 0
        try:
            while True:
                for event in pieces:
                    if event.startswith("data: ") and _USAGE_ONLY in event and '"usage":{' in event:
                        usage = json.loads(event.removeprefix("data: "))["usage"]
                        if not wants_usage:
                            continue
                    if event.startswith(_RESPONSE_ENDS):
                        usage = json.loads(event.partition("data: ")[2])["response"]["usage"]
                    sent += 1
                    yield event if named == known else event.replace(named, known, 1)
                async with asyncio.timeout_at(min(deadline, self._idle_deadline())):
                    pieces = await anext(stream)
        except StopAsyncIteration:
            reason = ""
        except TimeoutError:
            reason = "timeout"
            yield _error_event("the answer took too long and was cancelled", "timeout")
        except EngineGoneError:
            reason = "engine"
            yield _error_event("the engine was lost while it answered: ask again", "engine_lost")
        except Exception:
            # The client has half an answer: only an event can say that there will be no more.
            log.exception("a stream of %s failed", target.model)
            reason = "engine"
            yield _error_event("the engine failed on this request", "engine_failed")
        finally:
            await stream.aclose()
            if reason:
                self.metrics.cancelled.labels(reason).inc()
            if usage is None:
                caller.cut_short()
            # Where the engine told no usage, every event carried a token or more.
            self._count(caller, target, usage or {"completion_tokens": sent})

    def _count(self, caller: Caller, target: Target, usage: dict[str, Any] | None) -> None:
        used = usage or {}
        for kind, responses in (("prompt", "input"), ("completion", "output")):
            tokens = used.get(f"{kind}_tokens") or used.get(f"{responses}_tokens") or 0
            caller.tokens += tokens
            self.metrics.tokens.labels(target.model, target.version, kind).inc(tokens)


def caller_of(request: Request) -> Caller:
    """Who the guard let in."""
    found = getattr(request.state, "caller", None)
    return found if isinstance(found, Caller) else Caller()


def _error_event(message: str, code: str) -> str:
    return f"data: {json.dumps(error_content(message, 'server_error', code))}\n\n"
