"""Requests and answers over a socket, without Ray: what goes in comes out, and ends are noticed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from rldf_ray.engines import transport
from rldf_ray.engines.transport import (
    LENGTH,
    LONGEST,
    SECRET_LONGEST,
    Answer,
    ClientConnection,
    RequestServer,
)
from rldf_ray.models.base import (
    ChatRequest,
    Completion,
    EngineDiedError,
    Message,
    ModelError,
    PromptTooLongError,
    Usage,
)
from rldf_ray.models.scripted import ScriptedModel

SECRET = b"open sesame"
REQUEST = ChatRequest(
    messages=(Message("system", "Be brief."), Message("user", "Ünïcode?")),
    max_tokens=8,
    choices=("a", "b"),
    choice_probabilities=True,
    json_schema={"type": "object", "properties": {"x": [1, None, {"deep": 2.5}]}},
    affinity="d",
    address="d/1",
)


@asynccontextmanager
async def connected(answer: Answer) -> AsyncIterator[tuple[ClientConnection, RequestServer]]:
    server = RequestServer(answer, "127.0.0.1")
    connection = await ClientConnection.to(*await server.open(SECRET), SECRET)
    try:
        yield connection, server
    finally:
        connection.transport.close()
        assert server._server is not None
        server._server.close()


async def test_requests_and_completions_arrive_as_they_were_sent() -> None:
    seen: list[ChatRequest] = []
    said = Completion(
        text="a",
        finish_reason="stop",
        usage=Usage(3, 2, 1),
        model="m",
        revision="r",
        prompt_ids=(1, 2),
        token_ids=(3,),
        logprobs=(-0.5,),
        choice_probabilities={"a": 0.75, "b": 0.25},
    )

    async def answer(request: ChatRequest) -> tuple[Completion, ...]:
        seen.append(request)
        return (said, replace(said, logprobs=None))

    async with connected(answer) as (connection, _):
        assert await connection.ask(REQUEST, 60) == (said, replace(said, logprobs=None))
    assert seen == [REQUEST]


async def test_an_engine_that_answers_others_is_waited_for() -> None:
    ready = asyncio.Event()

    async def answer(request: ChatRequest) -> tuple[Completion, ...]:
        if request.address == "slow":
            await ready.wait()
        return ()

    async with connected(answer) as (connection, _):
        slow = asyncio.create_task(connection.ask(replace(REQUEST, address="slow"), 0.2))
        before = connection.answered_at
        await connection.ask(REQUEST, 60)
        assert connection.answered_at > before
        # As if somebody were answered all the time.
        connection.answered_at = connection.loop.time() + 3600
        await asyncio.sleep(0.5)
        assert not slow.done()
        ready.set()
        assert await slow == ()


async def test_an_engine_that_answers_nobody_is_not_waited_for() -> None:
    async def answer(request: ChatRequest) -> tuple[Completion, ...]:
        await asyncio.Event().wait()
        return ()

    async with connected(answer) as (connection, _):
        with pytest.raises(TimeoutError):
            await connection.ask(REQUEST, 0.05)


async def test_a_thousand_requests_under_way_get_their_own_answers() -> None:
    async def answer(request: ChatRequest) -> tuple[Completion, ...]:
        await asyncio.sleep(random.random() / 20)
        return await ScriptedModel().complete(request)

    requests = [replace(REQUEST, seed=i, json_schema=None, choices=None) for i in range(1000)]
    async with connected(answer) as (connection, _):
        answers = await asyncio.gather(*(connection.ask(request, 60) for request in requests))
    assert answers == [await ScriptedModel().complete(request) for request in requests]


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        (ModelError("it cannot"), ModelError, "it cannot"),
        (PromptTooLongError("too long"), PromptTooLongError, "too long"),
        (EngineDiedError("core ended"), EngineDiedError, "core ended"),
        (KeyError("x"), ModelError, "KeyError: 'x'"),
    ],
)
async def test_what_went_wrong_is_reported(error: Exception, kind: type, reason: str) -> None:
    async def answer(request: ChatRequest) -> tuple[Completion, ...]:
        raise error

    async with connected(answer) as (connection, _):
        with pytest.raises(kind, match=reason) as caught:
            await connection.ask(REQUEST, 60)
    assert type(caught.value) is kind


async def test_requests_to_an_engine_that_goes_away_fail_at_once() -> None:
    arrived = asyncio.Semaphore(0)

    async def never(request: ChatRequest) -> tuple[Completion, ...]:
        arrived.release()
        await asyncio.sleep(3600)
        return ()

    async with connected(never) as (connection, _):
        waiting = [asyncio.create_task(connection.ask(REQUEST, 60)) for _ in range(5)]
        for _ in waiting:
            await arrived.acquire()
        connection.transport.abort()
        results = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 60)
        assert [type(result) for result in results] == [EngineDiedError] * 5
        with pytest.raises(EngineDiedError):
            await connection.ask(REQUEST, 60)


async def test_nobody_answers_where_there_is_no_engine() -> None:
    server = RequestServer(ScriptedModel().complete, "127.0.0.1")
    host, port = await server.open(SECRET)
    assert server._server is not None
    server._server.close()
    with pytest.raises(EngineDiedError, match="no connection"):
        await ClientConnection.to(host, port, SECRET)


async def test_whoever_does_not_know_the_secret_is_not_answered() -> None:
    asked: list[ChatRequest] = []

    async def answer(request: ChatRequest) -> tuple[Completion, ...]:
        asked.append(request)
        return ()

    async with connected(answer) as (_, server):
        address = await server.open(b"another")
        stranger = await ClientConnection.to(*address, b"guess")
        with pytest.raises(EngineDiedError):
            await asyncio.wait_for(stranger.ask(REQUEST, 60), 60)
        second = await ClientConnection.to(*address, b"another")
        assert await second.ask(REQUEST, 60) == ()
        second.transport.close()
    assert len(asked) == 1


@pytest.mark.parametrize(
    "sent",
    [
        LENGTH.pack(LONGEST) + b"x" * 10_000,
        LENGTH.pack(SECRET_LONGEST + 1),
        LENGTH.pack(5) + b"guess" + LENGTH.pack(len(SECRET)) + SECRET,
    ],
    ids=["a frame of 256 MiB", "more than a secret", "another guess in the same breath"],
)
async def test_a_stranger_is_cut_off_before_anything_is_kept_for_it(sent: bytes) -> None:
    async with connected(ScriptedModel().complete) as (_, server):
        reader, writer = await asyncio.open_connection(*await server.open(SECRET))
        writer.write(sent)
        try:
            assert await asyncio.wait_for(reader.read(), 60) == b""
        except ConnectionResetError:
            pass
        writer.close()


async def test_a_stranger_that_says_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "SECRET_DEADLINE_S", 0.05)
    plain = replace(REQUEST, json_schema=None)
    async with connected(ScriptedModel().complete) as (connection, server):
        reader, writer = await asyncio.open_connection(*await server.open(SECRET))
        writer.write(LENGTH.pack(len(SECRET)))
        try:
            assert await asyncio.wait_for(reader.read(), 60) == b""
        except ConnectionResetError:
            pass
        writer.close()
        # Whoever has said it stays.
        assert await connection.ask(plain, 60) == await ScriptedModel().complete(plain)


def test_engines_may_run_in_another_kind_of_event_loop() -> None:
    """Ray's actors take uvloop where it is installed."""
    uvloop = pytest.importorskip("uvloop")

    async def ask() -> None:
        async with connected(ScriptedModel().complete) as (connection, _):
            plain = replace(REQUEST, json_schema=None)
            assert await connection.ask(plain, 60) == await ScriptedModel().complete(plain)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(ask())
