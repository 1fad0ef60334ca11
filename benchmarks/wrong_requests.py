"""Requests no client library would send, over bare sockets."""

from __future__ import annotations

import asyncio
import collections
import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

PATHS = (
    "/v1/chat/completions", "/v1/completions", "/v1/responses", "/tokenize", "/v1/bias",
    "/v1/debate",
)  # fmt: skip
AT_ONCE = 32
ANSWER_TIMEOUT_S = 60
# The connection was closed without an answer.
CLOSED = 0
# A server that leaves a client waiting is as wrong as one that fails.
NO_ANSWER = 999

# Of a request that failed, this much is kept.
SHOWN = 800


@dataclass
class Answers:
    """How many answers had each status, and the requests that failed.

    Attributes:
        failed: of every status of 500 or more, or none, the status and how the request began.
        closed: connections closed without an answer, by the kind of request. None has to be: the
            server answers before it closes, and leaves time to read the answer.
    """

    statuses: collections.Counter[int] = field(default_factory=collections.Counter)
    failed: list[tuple[int, str]] = field(default_factory=list)
    closed: collections.Counter[str] = field(default_factory=collections.Counter)

    def add(self, status: int, request: bytes, kind: str) -> None:
        self.statuses[status] += 1
        if status == CLOSED:
            self.closed[kind] += 1
        if status >= 500:
            self.failed.append((status, request[:SHOWN].decode(errors="backslashreplace")))


HELLO = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 2}
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1.5, 1e308, 10**30, "", "x", "\ud800", "\x00", [], [[]], {}, {"a": {}},
    ["x"] * 1000, "x" * 100_000,
)  # fmt: skip


def bodies() -> Iterator[bytes]:
    """Bodies that are wrong in their content, for ever."""
    fields = ("messages", "prompt", "model", "n", "max_tokens", "temperature", "top_p", "seed",
              "stop", "stream", "logprobs", "top_logprobs", "response_format", "guided_json",
              "guided_choice", "structured_outputs", "input", "referee", "topic", "rounds",
              "debaters", "bias_type", "stream_options", "tools", "tool_choice", "logit_bias",
              "top_k", "min_p", "reasoning_effort", "echo", "prompt_logprobs", "text", "reasoning",
              "max_output_tokens", "unknown")  # fmt: skip
    wrong = (json.dumps({**HELLO, field: value}).encode() for field in fields for value in VALUES)
    texts = (
        b"",
        b"{",
        b"\xff\xfe\xfd",
        b'{"messages": "\xc3"}',
        b"null",
        b"[]",
        b"NaN",
        b"0" * 5000,
    )
    deep = (
        b"[" * 50_000,
        b'{"a":' * 20_000,
        json.dumps({**HELLO, "guided_json": nested(200)}).encode(),
    )
    schemas: tuple[dict[str, object], ...] = (
        {"type": "nonsense"}, {"$ref": "#"}, {"$ref": "http://127.0.0.1:1/x"}, {"enum": []},
        {"type": "array", "minItems": 10**9}, {"type": "string", "pattern": "(a+)+$("},
        {"allOf": [{"$ref": "#/a"}]}, {"type": "object", "required": ["x"] * 500},
    )  # fmt: skip
    guided = (json.dumps({**HELLO, "guided_json": schema}).encode() for schema in schemas)
    return itertools.cycle([*wrong, *texts, *deep, *guided])


def nested(depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        found = {"type": "object", "properties": {"a": found}}
    return found


Kind = Callable[[str, str, bytes], list[bytes | float]]


def plain(path: str, key: str, body: bytes) -> list[bytes | float]:
    """A whole request; numbers in the list are pauses in seconds."""
    return [head(path, key, len(body)), body]


def wrong_key(path: str, key: str, body: bytes) -> list[bytes | float]:
    return [head(path, key[:-1] + "\xff", len(body)), body]


def no_key(path: str, key: str, body: bytes) -> list[bytes | float]:
    return [head(path, key, len(body)).replace(b"authorization", b"x-nothing"), body]


def huge(path: str, key: str, body: bytes) -> list[bytes | float]:
    return [head(path, key, 3 << 20), *[b"x" * (1 << 16)] * 48]


def said_to_be_huge(path: str, key: str, body: bytes) -> list[bytes | float]:
    return [head(path, key, 10**15), b"{}"]


def chunked_for_ever(path: str, key: str, body: bytes) -> list[bytes | float]:
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    return [head(path, key, None), *[chunk] * 48]


def slow(path: str, key: str, body: bytes) -> list[bytes | float]:
    pieces: list[bytes | float] = [head(path, key, 1000)]
    for _ in range(6):
        pieces += [0.5, b"{"]
    return pieces


def cut_off(path: str, key: str, body: bytes) -> list[bytes | float]:
    return [head(path, key, len(body) + 100), body]


def broken_chunks(path: str, key: str, body: bytes) -> list[bytes | float]:
    return [head(path, key, None), b"zz\r\nnothing\r\n\r\n"]


def no_http(path: str, key: str, body: bytes) -> list[bytes | float]:
    return [b"\x16\x03\x01\x02\x00\x01" + body[:100]]


def long_header(path: str, key: str, body: bytes) -> list[bytes | float]:
    text = head(path, key, len(body)).replace(
        b"\r\n\r\n", b"\r\nx-long: " + b"a" * 70_000 + b"\r\n\r\n"
    )
    return [text, body]


def endless_header(path: str, key: str, body: bytes) -> list[bytes | float]:
    return [head(path, key, 0)[:-2] + b"x-long: ", *[b"a" * (1 << 16)] * 48]


def many_fields(path: str, key: str, body: bytes) -> list[bytes | float]:
    return [head(path, key, 0)[:-2], *[b"x: y\r\n" * 10_000] * 48]


def half_head(path: str, key: str, body: bytes) -> list[bytes | float]:
    return [head(path, key, len(body))[:-20]]


def strange_path(path: str, key: str, body: bytes) -> list[bytes | float]:
    return [head("/v1/runs/%2e%2e%2f%2e%2e/%00/report?a=%ff", key, 0).replace(b"POST", b"GET")]


KINDS: tuple[Kind, ...] = (
    plain, plain, plain, plain, plain, plain, wrong_key, no_key, huge, said_to_be_huge,
    chunked_for_ever, slow, cut_off, broken_chunks, no_http, long_header,
    endless_header, many_fields, half_head, strange_path,
)  # fmt: skip


def head(path: str, key: str, length: int | None) -> bytes:
    size = "transfer-encoding: chunked" if length is None else f"content-length: {length}"
    lines = (
        f"POST {path} HTTP/1.1", "host: localhost", f"authorization: Bearer {key}",
        "content-type: application/json", "connection: close", size,
    )  # fmt: skip
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


async def send_all(url: str, key: str, number: int, answers: Answers) -> None:
    """`number` wrong requests of all kinds in turn."""
    parts = urlsplit(url)
    seats = asyncio.Semaphore(AT_ONCE)
    some = bodies()

    async def one(i: int) -> None:
        kind, path = KINDS[i % len(KINDS)], PATHS[i % len(PATHS)]
        pieces = kind(path, key, next(some))
        async with seats:
            status = await _send(parts.hostname or "", parts.port or 80, pieces)
        sent = b"".join(piece for piece in pieces if isinstance(piece, bytes))
        answers.add(status, sent, kind.__name__)

    await asyncio.gather(*(one(i) for i in range(number)))


async def _send(host: str, port: int, pieces: list[bytes | float]) -> int:
    """The status of the answer, which is read while the request is still being sent.

    A server may answer before the whole request is there, and close; a client that goes on sending
    and reads afterwards loses what it was answered.
    """
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(host, port)
            answer = asyncio.ensure_future(reader.readline())
            try:
                async for piece in _paced(pieces):
                    if answer.done():
                        break
                    writer.write(piece)
                    with suppress(ConnectionError):
                        await writer.drain()
                return _status(await answer)
            finally:
                answer.cancel()
                writer.close()
    except ConnectionError:
        return CLOSED
    except TimeoutError:
        return NO_ANSWER


async def _paced(pieces: list[bytes | float]) -> AsyncIterator[bytes]:
    for piece in pieces:
        if isinstance(piece, bytes):
            yield piece
        else:
            await asyncio.sleep(piece)


def _status(line: bytes) -> int:
    words = line.split()
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else CLOSED
