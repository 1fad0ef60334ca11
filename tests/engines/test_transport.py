"""Requests and answers over a socket, without Ray: what goes in comes out, and ends are noticed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from rldf_ray.engines.transport import Answer, Desk, Line
from rldf_ray.models.base import (
    ChatRequest,
    Completion,
    EngineDiedError,
    Message,
    ModelError,
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
async def connected(answer: Answer) -> AsyncIterator[tuple[Line, Desk]]:
    desk = Desk(answer, "127.0.0.1")
    line = await Line.to(*await desk.open(SECRET), SECRET)
    try:
        yield line, desk
    finally:
        line.transport.close()
        assert desk._server is not None
        desk._server.close()


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

    async with connected(answer) as (line, _):
        assert await line.ask(REQUEST) == (said, replace(said, logprobs=None))
    assert seen == [REQUEST]


async def test_a_thousand_requests_under_way_get_their_own_answers() -> None:
    async def answer(request: ChatRequest) -> tuple[Completion, ...]:
        await asyncio.sleep(random.random() / 20)
        return await ScriptedModel().complete(request)

    requests = [replace(REQUEST, seed=i, json_schema=None, choices=None) for i in range(1000)]
    async with connected(answer) as (line, _):
        answers = await asyncio.gather(*(line.ask(request) for request in requests))
    assert answers == [await ScriptedModel().complete(request) for request in requests]


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [
        (ModelError("too long"), ModelError, "too long"),
        (EngineDiedError("core ended"), EngineDiedError, "core ended"),
        (KeyError("x"), ModelError, "KeyError: 'x'"),
    ],
)
async def test_what_went_wrong_is_told(error: Exception, kind: type, told: str) -> None:
    async def answer(request: ChatRequest) -> tuple[Completion, ...]:
        raise error

    async with connected(answer) as (line, _):
        with pytest.raises(kind, match=told) as caught:
            await line.ask(REQUEST)
    assert type(caught.value) is kind


async def test_requests_to_an_engine_that_goes_away_fail_at_once() -> None:
    arrived = asyncio.Semaphore(0)

    async def never(request: ChatRequest) -> tuple[Completion, ...]:
        arrived.release()
        await asyncio.sleep(3600)
        return ()

    async with connected(never) as (line, _):
        waiting = [asyncio.create_task(line.ask(REQUEST)) for _ in range(5)]
        for _ in waiting:
            await arrived.acquire()
        line.transport.abort()
        results = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 60)
        assert [type(result) for result in results] == [EngineDiedError] * 5
        with pytest.raises(EngineDiedError):
            await line.ask(REQUEST)


async def test_nobody_answers_where_there_is_no_engine() -> None:
    desk = Desk(ScriptedModel().complete, "127.0.0.1")
    host, port = await desk.open(SECRET)
    assert desk._server is not None
    desk._server.close()
    with pytest.raises(EngineDiedError, match="no connection"):
        await Line.to(host, port, SECRET)


async def test_whoever_does_not_know_the_secret_is_not_answered() -> None:
    asked: list[ChatRequest] = []

    async def answer(request: ChatRequest) -> tuple[Completion, ...]:
        asked.append(request)
        return ()

    async with connected(answer) as (_, desk):
        address = await desk.open(b"another")
        stranger = await Line.to(*address, b"guess")
        with pytest.raises(EngineDiedError):
            await asyncio.wait_for(stranger.ask(REQUEST), 60)
        second = await Line.to(*address, b"another")
        assert await second.ask(REQUEST) == ()
        second.transport.close()
    assert len(asked) == 1


def test_engines_may_run_in_another_kind_of_event_loop() -> None:
    """Ray's actors take uvloop where it is installed."""
    uvloop = pytest.importorskip("uvloop")

    async def ask() -> None:
        async with connected(ScriptedModel().complete) as (line, _):
            plain = replace(REQUEST, json_schema=None)
            assert await line.ask(plain) == await ScriptedModel().complete(plain)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(ask())
