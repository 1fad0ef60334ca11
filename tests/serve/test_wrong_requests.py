"""Wrong requests, in small numbers; benchmarks/malformed.py sends ten thousand to a real server."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from benchmarks.wrong_requests import PATHS, Answers, bodies, send_all
from rldf_ray.apps.serve import connections
from rldf_ray.apps.serve.connections import Connection
from rldf_ray.apps.serve.keys import add_key
from tests.serve.conftest import Start

JSON = {"content-type": "application/json"}
OPERATIONS = (
    *("/v1/chat/completions", "/v1/completions", "/v1/responses", "/tokenize", "/detokenize"),
    *("/v1/bias", "/v1/debate"),
)


@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode))
@pytest.mark.parametrize("path", OPERATIONS)
def test_what_the_description_generates_is_never_a_server_error(
    start: Start, path: str, mode: Any
) -> None:
    client = start().client
    operation = schemathesis.openapi.from_dict(client.get("/openapi.json").json())[path]["POST"]

    @settings(
        max_examples=15,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def send(case: Any) -> None:
        body = case.body if isinstance(case.body, (dict, list)) else None
        reply = client.post(path, json=body, params=case.query or None)
        assert reply.status_code < 500
        if reply.status_code >= 400:
            assert reply.json()["error"]["message"]

    send()


def test_wrong_contents_are_never_a_server_error(start: Start) -> None:
    client = start().client
    for body in itertools.islice(bodies(), 620):
        for path in PATHS:
            reply = client.post(path, content=body, headers=JSON)
            assert reply.status_code < 500, (path, body[:200])


def test_any_bytes_are_answered(start: Start) -> None:
    client = start().client

    @given(body=st.binary(max_size=200))
    @settings(max_examples=30, deadline=None)
    def send(body: bytes) -> None:
        for path in PATHS:
            assert 400 <= client.post(path, content=body, headers=JSON).status_code < 500

    send()


@pytest.fixture
def on_a_socket(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, str]]:
    """A server on a real socket, and a key for it."""
    monkeypatch.setattr(connections, "HEAD_S", 2.0)
    key = add_key(tmp_path / "keys.json", "ann")
    server = start(keys=str(tmp_path / "keys.json"), limits={"body_timeout_s": 4})
    web = uvicorn.Server(
        uvicorn.Config(server.guard, port=0, log_level="critical", http=Connection)
    )
    thread = threading.Thread(target=web.run)
    thread.start()
    while not web.started:
        time.sleep(0.01)
    port = web.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}", key
    web.should_exit = True
    thread.join()


def test_broken_http_slow_senders_and_wrong_keys(on_a_socket: tuple[str, str]) -> None:
    url, key = on_a_socket
    answers = Answers()
    asyncio.run(send_all(url, key, 80, answers))
    statuses = answers.statuses
    assert statuses.total() == 80 and not answers.failed, answers
    assert not answers.closed, answers.closed
    assert statuses[401] >= 8 and statuses[413] >= 4 and statuses[408] >= 8, statuses
    assert statuses[431] >= 12, statuses
    good = {"authorization": f"Bearer {key}"}
    body = {"messages": [{"role": "user", "content": "Hello"}]}
    assert httpx.post(f"{url}/v1/chat/completions", json=body, headers=good).status_code == 200
