"""Requests and answers between a pool and its engines, over a socket of their own.

A call of a Ray actor takes milliseconds of processor time on both sides; thousands of requests a
second from one program leave a tenth of that. Ray still places, starts and kills the actors. A
frame is a length (4 bytes) and MessagePack; the first frame of a connection is the pool's secret.
"""

from __future__ import annotations

import asyncio
import hmac
import itertools
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import cast

import msgspec

from rldf_ray.models.base import (
    ChatRequest,
    Completion,
    EngineDiedError,
    ModelError,
    PromptTooLongError,
)

LENGTH = struct.Struct(">I")
LONGEST = 2**28
# Of one who has not given the secret, nothing longer than it is kept, and not for ever.
SECRET_LONGEST = 64
SECRET_DEADLINE_S = 120.0

Answer = Callable[[ChatRequest], Awaitable[tuple[Completion, ...]]]


@dataclass(frozen=True, slots=True)
class Request:
    number: int
    chat: ChatRequest


@dataclass(frozen=True, slots=True)
class Reply:
    """Samples, or why there are none.

    Attributes:
        died: another engine could answer.
        too_long: this prompt exceeds what the model reads.
    """

    number: int
    samples: tuple[Completion, ...] | None = None
    error: str = ""
    died: bool = False
    too_long: bool = False


_encoder = msgspec.msgpack.Encoder()
_request_decoder = msgspec.msgpack.Decoder(Request)
_reply_decoder = msgspec.msgpack.Decoder(Reply)


class _Frames(asyncio.Protocol):
    """Cuts what arrives into frames."""

    transport: asyncio.Transport

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._buffer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, as uvloop's transports are none of asyncio's classes.
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        # What follows a frame that ended the connection is not read.
        while len(self._buffer) >= LENGTH.size and not self.transport.is_closing():
            (length,) = LENGTH.unpack_from(self._buffer)
            if length > self._longest:
                self.transport.abort()
                return
            end = LENGTH.size + length
            if len(self._buffer) < end:
                return
            frame = bytes(self._buffer[LENGTH.size : end])
            del self._buffer[:end]
            self.frame_received(frame)

    def frame_received(self, frame: bytes) -> None:
        raise NotImplementedError

    def send(self, frame: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(LENGTH.pack(len(frame)) + frame)


class RequestServer:
    """The engine's side: answers whoever knows one of its secrets."""

    def __init__(self, answer: Answer, host: str | None = None) -> None:
        self._answer = answer
        self._host = host or _own_address()
        self._secrets: set[bytes] = set()
        self._server: asyncio.Server | None = None
        self._working: set[asyncio.Task[None]] = set()

    async def open(self, secret: bytes) -> tuple[str, int]:
        """Let in those who know `secret`; host and port."""
        self._secrets.add(secret)
        if self._server is None:
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(lambda: _ServerConnection(self), self._host, 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return self._host, port

    def knows(self, secret: bytes) -> bool:
        return any(hmac.compare_digest(secret, known) for known in self._secrets)

    def work(self, connection: _Frames, request: Request) -> None:
        task = asyncio.get_running_loop().create_task(self._work(connection, request))
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    async def _work(self, connection: _Frames, request: Request) -> None:
        try:
            reply = Reply(request.number, await self._answer(request.chat))
        except EngineDiedError as error:
            reply = Reply(request.number, error=str(error), died=True)
        except ModelError as error:
            too_long = isinstance(error, PromptTooLongError)
            reply = Reply(request.number, error=str(error), too_long=too_long)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the caller's to know
            reply = Reply(request.number, error=f"{type(error).__name__}: {error}")
        connection.send(_encoder.encode(reply))


class _ServerConnection(_Frames):
    """The engine's side of one connection; its first frame has to be a secret."""

    def __init__(self, server: RequestServer) -> None:
        super().__init__(SECRET_LONGEST)
        self._server = server
        self._known = False
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(SECRET_DEADLINE_S, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_deadline()

    def frame_received(self, frame: bytes) -> None:
        if self._known:
            self._server.work(self, _request_decoder.decode(frame))
        elif self._server.knows(frame):
            self._known, self._longest = True, LONGEST
            self._end_deadline()
        else:
            self.transport.abort()

    def _end_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()


def _kind_of(reply: Reply) -> type[ModelError]:
    if reply.died:
        return EngineDiedError
    return PromptTooLongError if reply.too_long else ModelError


def _own_address() -> str:
    """Where other nodes of the cluster reach this process."""
    import ray

    address: str = ray.util.get_node_ip_address()
    return address


class ClientConnection(_Frames):
    """The pool's side, within one event loop.

    Attributes:
        answered_at: when the last answer came, by the loop's clock [s].
    """

    def __init__(self) -> None:
        super().__init__(LONGEST)
        self.loop = asyncio.get_running_loop()
        self.answered_at = self.loop.time()
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[tuple[Completion, ...]]] = {}

    @classmethod
    async def to(cls, host: str, port: int, secret: bytes) -> ClientConnection:
        """A connection to an engine's server.

        Raises:
            EngineDiedError: nobody answers there.
        """
        try:
            _, connection = await asyncio.get_running_loop().create_connection(cls, host, port)
        except OSError as error:
            raise EngineDiedError(f"no connection to it: {error}") from error
        connection.send(secret)
        return connection

    @property
    def open(self) -> bool:
        return not self.transport.is_closing()

    async def ask(self, request: ChatRequest, silent_s: float) -> tuple[Completion, ...]:
        """The engine's answer.

        One that is slow, and answers others meanwhile, is waited for.

        Raises:
            EngineDiedError: it is gone, or says that it is as good as dead.
            ModelError: it says why it cannot answer.
            TimeoutError: it has answered nobody for `silent_s`.
        """
        if not self.open:
            raise EngineDiedError("the connection to it was lost")
        number = next(self._numbers)
        answer: asyncio.Future[tuple[Completion, ...]] = self.loop.create_future()
        self._waiting[number] = answer
        try:
            self.send(_encoder.encode(Request(number, request)))
            asked_at = self.loop.time()
            while not answer.done():
                left = max(asked_at, self.answered_at) + silent_s - self.loop.time()
                if left <= 0:
                    raise TimeoutError
                await asyncio.wait([answer], timeout=left)
            return answer.result()
        finally:
            self._waiting.pop(number, None)

    def frame_received(self, frame: bytes) -> None:
        reply = _reply_decoder.decode(frame)
        self.answered_at = self.loop.time()
        answer = self._waiting.get(reply.number)
        if answer is None or answer.done():
            return  # the caller has given up
        if reply.samples is not None:
            answer.set_result(reply.samples)
        else:
            answer.set_exception(_kind_of(reply)(reply.error))

    def connection_lost(self, exc: Exception | None) -> None:
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(EngineDiedError("the connection to it was lost"))
