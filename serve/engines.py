"""What the API needs of the engines, without knowing what they run on.

request --> Target (engine, version, adapter) --> Engines.generate --> pieces of the answer
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from rldf_ray.errors import UserError

FIRST_WAIT_S = 0.2
LONGEST_WAIT_S = 2.0
# The status of an answer by an engine that died before it was asked, and while it answered; 500 is
# that of one that lives.
GONE, DIED = 503, 502
# So many engines die of one request at most.
MOST_DEATHS = 3

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

    @property
    def name(self) -> str:
        """What the engine calls the model in its answers."""
        return self.engine if self.adapter is None else self.adapter.name


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


# Where to ask, given where the engine was found gone (None: nowhere yet).
Choose = Callable[[Target | None], Target]


async def begin(
    engines: Engines, target: Choose, request: Callable[[Target], EngineRequest]
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
    chosen: Target | None = None
    wait_s, deaths = FIRST_WAIT_S, 0
    while True:
        chosen = target(chosen)
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
    engines: Engines, target: Choose, request: Callable[[Target], EngineRequest]
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
