"""Engines that are lost, refuse or fail: what is asked again, and what a client is told."""

from __future__ import annotations

from typing import Any

import pytest

from rldf_ray.apps.serve.engines import (
    DIED,
    MOST_DEATHS,
    EngineGoneError,
    EngineRequest,
    Stream,
    Target,
    error_piece,
    raise_if_error,
)
from rldf_ray.apps.serve.scripted import ScriptedEngine, ScriptedEngines
from tests.serve.conftest import Start, events

CHAT = "/v1/chat/completions"
HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "Hello"}]}


class Failing(ScriptedEngines):
    """Fails `times` times before (or after) the first piece, then answers."""

    def __init__(self, times: int, after: int = 0) -> None:
        super().__init__()
        self.left, self.after = times, after

    async def generate(self, target: Target, request: EngineRequest) -> Stream:
        sent = 0
        async for piece in ScriptedEngine().answer(target.model, request):
            if self.left and sent == self.after:
                self.left -= 1
                raise EngineGoneError("killed")
            sent += 1
            yield piece


@pytest.mark.parametrize("stream", [False, True])
def test_an_engine_lost_before_its_first_word_is_asked_again(start: Start, stream: bool) -> None:
    server = start(Failing(2))
    reply = server.client.post(CHAT, json={**HELLO, "stream": stream})
    assert reply.status_code == 200 and server.engines.left == 0
    assert "error" not in reply.text


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_that_engines_die_of_kills_no_more_than_some(start: Start, stream: bool) -> None:
    server = start(Refusing(error_piece("the engine has died", DIED)))
    reply = server.client.post(CHAT, json={**HELLO, "stream": stream})
    assert (reply.status_code, server.engines.asked) == (503, MOST_DEATHS)
    assert reply.json()["error"]["code"] == "engine_lost"


class Refusing(ScriptedEngines):
    """Answers with the given errors, after `after` pieces, and counts how often it is asked."""

    def __init__(self, *errors: Any, after: int = 0) -> None:
        super().__init__()
        self.errors, self.after, self.asked = errors, after, 0

    async def generate(self, target: Target, request: EngineRequest) -> Stream:
        self.asked += 1
        sent = 0
        async for piece in ScriptedEngine().answer(target.model, request):
            if sent == self.after:
                for error in self.errors:
                    raise_if_error(error)
                return
            sent += 1
            yield piece


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("errors", "status"),
    [
        ([error_piece("the prompt is too long", 400)], 400),
        ([['data: {"error": {"message": "too long", "code": 400}}\n\n']], 400),
        ([error_piece("a bug", 500)], 500),
        ([], 500),
    ],
)
def test_an_error_of_an_engine_that_lives_is_not_asked_for_again(
    start: Start, stream: bool, errors: list[Any], status: int
) -> None:
    server = start(Refusing(*errors))
    reply = server.client.post(CHAT, json={**HELLO, "stream": stream})
    assert (reply.status_code, server.engines.asked) == (status, 1)
    assert reply.json()["error"]["message"]


@pytest.mark.parametrize("status", [400, 500])
def test_an_error_within_a_stream_ends_with_an_event(start: Start, status: int) -> None:
    server = start(Refusing(error_piece("no", status), after=2))
    *_, last = events(server.client.post(CHAT, json={**HELLO, "stream": True}).text)
    assert last["error"]["code"] == "engine_failed"


def test_an_engine_lost_while_it_answers_ends_with_an_error_event(start: Start) -> None:
    reply = start(Failing(1, after=2)).client.post(CHAT, json={**HELLO, "stream": True})
    first, second, last = events(reply.text)
    assert first["choices"] and second["choices"]
    assert last["error"]["code"] == "engine_lost"
