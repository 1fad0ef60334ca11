"""What the API needs of the engines, without knowing what they run on.

request --> Target (engine, version, adapter) --> Engines.generate --> pieces of the answer
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from rldf_ray.apps.serve.settings import Settings
from rldf_ray.apps.serve.store import ModelStore, StoreError, Traffic
from rldf_ray.errors import UserError

LOOK_EVERY_S = 1.0
FIRST_WAIT_S = 0.2
LONGEST_WAIT_S = 2.0
# The status of an answer by an engine that died before it was asked, and while it answered; 500 is
# that of one that lives.
GONE, DIED = 503, 502
# So many engines die of one request at most.
MOST_DEATHS = 3

log = logging.getLogger("rldf.serve")

# A piece is a list of server-sent events ("data: ...\n\n") or one whole answer.
Piece = list[str] | dict[str, Any]
Stream = AsyncGenerator[Piece, None]
Kind = Literal["chat", "completion", "responses", "tokenize", "detokenize", "choose"]


class EngineGoneError(UserError):
    """The engine died, or there is none; nothing says that the request itself is wrong."""


class EngineDiedError(EngineGoneError):
    """The engine died while it had the request, which may be what it died of."""


class EngineFailedError(UserError):
    """The engine lives and could not answer this request; nor could it if asked again."""


class EngineRefusedError(UserError):
    """The engine says the request is wrong (status 400 to 499)."""

    def __init__(self, status: int, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.param = param


class UnknownModelError(UserError, ValueError):
    """No model of that name is served."""


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter: its name in the engine, and its folder, loaded at its first request."""

    name: str
    folder: str


@dataclass(frozen=True)
class Target:
    """Where a request goes.

    Attributes:
        model: the name the client knows.
        version: published version, or "" for a plain folder.
        engine: name of the engine's own Serve application.
    """

    model: str
    version: str
    engine: str
    adapter: Adapter | None = None


@dataclass(frozen=True)
class EngineRequest:
    """One request as it travels to a replica.

    Attributes:
        kind: "chat", "completion" and "responses" are OpenAI's, "tokenize" and "detokenize" vLLM's;
            "choose" is the exact distribution over `body["choices"]` after `body["messages"]`.
        body: their fields.
    """

    kind: Kind
    body: dict[str, Any]
    adapter: Adapter | None = None

    @property
    def messages(self) -> list[dict[str, Any]]:
        """What Serve's prefix-aware router reads: never without text, as it divides by its size."""
        found: list[dict[str, Any]] = self.body.get("messages") or []
        if any(message["content"] for message in found):
            return found
        parts = (self.body.get(name) for name in ("instructions", "prompt", "input"))
        return [{"content": "\n".join(str(part) for part in parts if part) or self.kind}]


class Engines(Protocol):
    """Anything that answers engine requests."""

    def generate(self, target: Target, request: EngineRequest) -> Stream:
        """The pieces of the answer; closing it early cancels the generation in the engine.

        Raises:
            EngineGoneError, EngineFailedError, EngineRefusedError: while it is read.
        """
        ...

    async def generating(self, names: Sequence[str]) -> list[int | None]:
        """Generations under way in each of the engines; None where it cannot answer."""
        ...


@dataclass
class Routes:
    """Which engine answers for a model: follows the store's pointer, a look a second.

    Attributes:
        up: whether an engine can answer. Of several versions one that can is chosen; of a single
            one, requests wait.
    """

    settings: Settings
    up: Callable[[str], bool] = lambda engine: True
    clock: Callable[[], float] = time.monotonic
    draw: Callable[[], float] = lambda: random.uniform(0, 100)
    _seen: dict[str, tuple[float, Traffic]] = field(default_factory=dict)

    def target(self, model: str | None) -> Target:
        """Where a request that names `model` goes now.

        Raises:
            UnknownModelError: no such model.
            EngineGoneError: nothing of it is published yet.
        """
        name = model or self.settings.default_model
        source = self.settings.models.get(name)
        if source is None:
            known = ", ".join(self.settings.models)
            raise UnknownModelError(f"the model {name!r} does not exist; there are: {known}")
        version = ""
        if source.store:
            traffic = self.traffic(name)
            if traffic is None:
                raise EngineGoneError(f"no version of {name} has been published yet")
            version = self._able(name, traffic)
        joined = _joined(name, version)
        if source.on is None:
            return Target(name, version, joined)
        folder = source.folder or str(self._store(name).folder(version))
        carrier = self.target(source.on).engine
        return Target(name, version, carrier, Adapter(joined, folder))

    def _able(self, name: str, traffic: Traffic) -> str:
        drawn = traffic.version(self.draw())
        able = (v for v in (drawn, *traffic.versions) if self.up(_joined(name, v)))
        return next(able, drawn)

    def traffic(self, name: str) -> Traffic | None:
        """The versions of a model from the store; as they were, while it cannot be read.

        Raises:
            StoreError: it could not be read even once.
        """
        now = self.clock()
        seen = self._seen.get(name)
        if seen is not None and now - seen[0] < LOOK_EVERY_S:
            return seen[1]
        try:
            found = self._store(name).traffic()
        except StoreError as error:
            if seen is None:
                raise
            log.error("the versions of %s stay as they are: %s", name, error)
            found = seen[1]
        if found is not None:
            self._seen[name] = (now, found)
        return found

    def engines(self, name: str) -> dict[str, str]:
        """Engines that may answer for a model, each with the folder it serves.

        Those of versions that were current before may only while the current one is not up.
        """
        source = self.settings.models[name]
        if source.on is not None:
            return self.engines(source.on)
        if not source.store:
            return {name: source.folder or ""}
        traffic, store = self.traffic(name), self._store(name)
        if traffic is None:
            return {}
        versions = [traffic.current, *([traffic.next] if traffic.next else ())]
        if not self.up(_joined(name, traffic.current)):
            there = set(store.versions())
            versions += [version for version in traffic.before if version in there]
        return {_joined(name, version): str(store.folder(version)) for version in versions}

    def wanted(self) -> dict[str, str]:
        """Engines that have to run, each with the folder it serves.

        Of those that were current before, the last one that is up is wanted until the current one
        is; where none is up, all are, as one may be on its way back.
        """
        found: dict[str, str] = {}
        for name, source in self.settings.models.items():
            if source.on is None:
                found |= self._wanted_for(name)
        return found

    def _wanted_for(self, name: str) -> dict[str, str]:
        engines = self.engines(name)
        traffic = self._seen[name][1] if name in self._seen else None
        before = [] if traffic is None else [_joined(name, v) for v in traffic.before]
        there = [engine for engine in before if engine in engines]
        kept = [engine for engine in there if self.up(engine)][:1] or there
        return {e: folder for e, folder in engines.items() if e not in before or e in kept}

    def _store(self, name: str) -> ModelStore:
        assert self.settings.store is not None
        return ModelStore(Path(self.settings.store), name)


def _joined(name: str, version: str) -> str:
    return f"{name}.{version}" if version else name


async def begin(
    engines: Engines, target: Callable[[], Target], request: Callable[[Target], EngineRequest]
) -> tuple[Target, Piece, Stream]:
    """The first piece of an answer, and the stream it came from.

    An engine that is gone before its first piece is asked again, or another one is: nothing has
    reached the client, so nothing is lost. The caller's time-out ends this, or so many deaths that
    the request may be their cause. What else goes wrong would go wrong again.

    Raises:
        EngineDiedError: `MOST_DEATHS` times.
        EngineRefusedError: the request is wrong.
        EngineFailedError: the engine cannot answer it.
    """
    wait_s, deaths = FIRST_WAIT_S, 0
    while True:
        chosen = target()
        stream = engines.generate(chosen, request(chosen))
        try:
            return chosen, await anext(stream), stream
        except EngineGoneError as error:
            await stream.aclose()
            deaths += isinstance(error, EngineDiedError)
            if deaths == MOST_DEATHS:
                raise EngineDiedError(
                    f"{deaths} engines of {chosen.model} died while they had this request, which "
                    "may be the cause"
                ) from error
        except StopAsyncIteration:
            raise EngineFailedError(f"the engine of {chosen.model} gave no answer") from None
        except BaseException:
            await stream.aclose()
            raise
        await asyncio.sleep(wait_s)
        wait_s = min(LONGEST_WAIT_S, 2 * wait_s)


async def whole(
    engines: Engines, target: Callable[[], Target], request: Callable[[Target], EngineRequest]
) -> tuple[Target, dict[str, Any]]:
    """The answer to a request that does not stream.

    Raises:
        EngineRefusedError: the request is wrong.
        EngineFailedError: the engine cannot answer it.
    """
    chosen, first, stream = await begin(engines, target, request)
    await stream.aclose()
    assert isinstance(first, dict)
    return chosen, first


def piece_of(found: Any) -> Piece:
    """What vLLM's server in Ray gives, as a piece: a stream may have error objects in its lists."""
    if not isinstance(found, list):
        whole: dict[str, Any] = found.model_dump(mode="json")
        return whole
    odd = next((event for event in found if not isinstance(event, str)), None)
    return found if odd is None else piece_of(odd)


def error_piece(message: str, status: int) -> Piece:
    """An answer that is an error.

    Args:
        status: 400 to 499 the request is wrong, `GONE` or `DIED` the engine is dead.
    """
    return {"error": {"message": message, "code": status}}


def is_error(piece: Piece) -> bool:
    """Whether a piece says that something went wrong."""
    if isinstance(piece, dict):
        return bool(piece.get("error"))
    return bool(piece) and piece[0].startswith('data: {"error"')


def raise_if_error(piece: Piece) -> None:
    """Raise what a piece says went wrong, if it does.

    Raises:
        EngineRefusedError, EngineGoneError, EngineDiedError, EngineFailedError: by its status.
    """
    if not is_error(piece):
        return
    if isinstance(piece, list):
        found: dict[str, Any] = json.loads(piece[0].removeprefix("data: "))
    else:
        found = piece
    error = found["error"]
    status, message = error.get("code"), str(error.get("message"))
    if isinstance(status, int) and 400 <= status < 500:
        raise EngineRefusedError(status, message, error.get("param"))
    kinds = {GONE: EngineGoneError, DIED: EngineDiedError}
    raise kinds.get(status, EngineFailedError)(message)
