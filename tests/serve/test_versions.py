"""Published versions as clients meet them: one for all that a request asks, under known names."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from rldf_ray.apps.serve.engines import EngineGoneError, EngineRequest, Stream, Target
from rldf_ray.apps.serve.scripted import ScriptedEngines
from rldf_ray.apps.serve.store import ModelStore
from tests.serve.a_store import published
from tests.serve.conftest import Server, Start, events

CHAT = "/v1/chat/completions"
HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "Hello"}]}
DIALOGUES: dict[str, dict[str, Any]] = {
    "/v1/debate": {"topic": "Tests", "rounds": 2},
    "/v1/debias": {"messages": HELLO["messages"], "max_passes": 1},
    "/v1/evince": {"text": "The mayor opened it.", "target": "the mayor", "rounds": 2},
}


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    store = published(tmp_path, 2)
    store.rollout("v0002", 50)
    return store


def drawing(start: Start, store: ModelStore, *draws: float, engines: Any = None) -> Server:
    """A server of one published model, whose requests draw these numbers in turn."""
    server = start(engines, models={"policy": {"store": True}}, store=str(store.root))
    server.service.routes.draw = itertools.cycle(draws).__next__
    return server


@pytest.mark.parametrize("draws", [(0, 99), (99, 0)])
def test_all_texts_of_a_request_are_judged_by_one_version(
    start: Start, store: ModelStore, draws: tuple[float, float]
) -> None:
    server = drawing(start, store, *draws)
    reply = server.client.post("/v1/bias", json={"input": list("abcd"), "referee": True})
    (engine,) = server.engines.engines
    version = engine.removeprefix("policy.")
    assert reply.json()["referee"]["version"] == version
    assert reply.headers["x-rldf-version"] == version == ("v0002" if draws[0] == 0 else "v0001")


@pytest.mark.parametrize("route", DIALOGUES)
def test_a_dialogue_is_held_with_one_version(start: Start, store: ModelStore, route: str) -> None:
    server = drawing(start, store, 0, 99)
    text = server.client.post(route, json=DIALOGUES[route]).text
    assert "event: done" in text
    assert len(server.engines.engines) == 1


def test_requests_are_shared_among_versions(start: Start, store: ModelStore) -> None:
    server = drawing(start, store, 0, 99)
    found = [server.client.post(CHAT, json=HELLO).headers["x-rldf-version"] for _ in range(4)]
    assert found == ["v0002", "v0001"] * 2


class Dying(ScriptedEngines):
    """The engine of v0002 is gone after some answers."""

    left = 3

    async def generate(self, target: Target, request: EngineRequest) -> Stream:
        if target.version == "v0002":
            if not self.left:
                raise EngineGoneError("gone")
            self.left -= 1
        async for piece in super().generate(target, request):
            yield piece


def test_another_version_is_drawn_once_the_engine_is_gone(start: Start, store: ModelStore) -> None:
    server = drawing(start, store, 0, 99, 99, 0, engines=Dying())
    reply = server.client.post("/v1/bias", json={"input": list("abcdefgh"), "referee": True})
    assert set(server.engines.engines) == {"policy.v0001", "policy.v0002"}
    assert reply.json()["referee"]["version"] == "v0001, v0002"
    assert "x-rldf-version" not in reply.headers


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("route", [CHAT, "/v1/completions"])
def test_answers_name_the_model_as_requests_do(
    start: Start, store: ModelStore, route: str, stream: bool
) -> None:
    client = drawing(start, store, 0).client
    asked = {"prompt": "Hello"} if route == "/v1/completions" else HELLO
    reply = client.post(route, json={**asked, "stream": stream})
    assert reply.headers["x-rldf-version"] == "v0002"
    found = events(reply.text)[:-1] if stream else [reply.json()]
    assert {piece["model"] for piece in found} == {"policy"}
    again = client.post(route, json={**asked, "model": found[0]["model"]})
    assert again.status_code == 200


class Responding(ScriptedEngines):
    """Streams as vLLM's /v1/responses does, and says what looks like its name."""

    async def generate(self, target: Target, request: EngineRequest) -> Stream:
        said = f'"text":"\\"model\\":\\"{target.name}\\""'
        response = f'{{"id":"r","model":"{target.name}","usage":{{"input_tokens":1}}}}'
        yield [
            f'event: response.created\ndata: {{"response":{response}}}\n\n',
            f"event: response.output_text.delta\ndata: {{{said}}}\n\n",
        ]
        yield [f'event: response.completed\ndata: {{"response":{response}}}\n\n']


def test_events_of_responses_name_the_model_as_requests_do(start: Start, store: ModelStore) -> None:
    client = drawing(start, store, 0, engines=Responding()).client
    reply = client.post("/v1/responses", json={"input": "Hello", "stream": True})
    first, said, last = events(reply.text)
    assert first["response"]["model"] == last["response"]["model"] == "policy"
    assert said["text"] == '"model":"policy.v0002"'
