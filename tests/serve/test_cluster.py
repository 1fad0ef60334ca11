"""The application on real Ray Serve with scripted engines: faults, rollouts, shutdown."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.running_server import Running, running
from serve.keys import add_key
from serve.store import ModelStore

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]

CHAT = "/v1/chat/completions"
HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "Hello"}]}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ModelStore:
    folder = tmp_path_factory.mktemp("model")
    (folder / "config.json").write_text("{}")
    store = ModelStore(tmp_path_factory.mktemp("store"), "policy")
    store.publish(folder)
    store.publish(folder)
    return store


@pytest.fixture(scope="module")
def server(store: ModelStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    log = tmp_path_factory.mktemp("log") / "serve.txt"
    settings = ("engine.kind=scripted", "engine.scripted_delay_s=0.1", "engine.cpus=0.1")
    changes = [word for setting in settings for word in ("--set", setting)]
    model = str(store.folder("v0001"))
    with running(model, "--store", str(store.root), *changes, log=log) as server:
        yield server


@pytest.fixture
def client(server: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.address, timeout=60) as client:
        yield client


def test_it_answers_and_streams(client: httpx.Client) -> None:
    found = client.get("/ready").json()
    assert found["ready"] and found["generating"] == {"policy.v0001": 0}
    reply = client.post(CHAT, json=HELLO)
    assert reply.status_code == 200 and reply.headers["x-rldf-version"] == "v0001"
    times = []
    with client.stream("POST", CHAT, json={**HELLO, "stream": True}) as reply:
        for line in reply.iter_lines():
            if line.startswith("data"):
                times.append(time.monotonic())
    assert line == "" or line == "data: [DONE]"
    assert times[-1] - times[0] > 0.3, "the words came all at once"


def test_a_client_that_goes_cancels_the_generation(client: httpx.Client) -> None:
    with client.stream("POST", CHAT, json={**HELLO, "stream": True, "n": 8}) as reply:
        lines = reply.iter_lines()
        next(lines)
    deadline = time.monotonic() + 5
    cancelled = 'rldf_cancelled_total{reason="client"}'
    while cancelled not in client.get("/metrics").text:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_slow_sender_and_a_large_body_are_refused(client: httpx.Client) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(20):
            yield b"x" * 100_000

    assert client.post(CHAT, content=parts()).status_code == 413
    assert client.post(CHAT, content=b"\xff").status_code == 400


def test_a_debate_streams_over_the_engine(client: httpx.Client) -> None:
    body = {"topic": "Tests are fun", "rounds": 1, "debaters": 2}
    text = client.post("/v1/debate", json=body).text
    kinds = [line for line in text.splitlines() if line.startswith("event: ")]
    assert kinds[0] == "event: debate" and kinds[-1] == "event: done"


def test_a_killed_replica_loses_nothing_that_had_not_begun(
    server: Running, client: httpx.Client
) -> None:
    streaming = threading.Event()
    replica = server.replica("rldf-policy.v0001")

    def ask(stream: bool) -> str:
        found = ""
        with client.stream("POST", CHAT, json={**HELLO, "stream": stream}) as reply:
            assert reply.status_code == 200
            for piece in reply.iter_text():
                found += piece
                if stream:
                    streaming.set()
        return found

    with ThreadPoolExecutor(16) as pool:
        asked = [pool.submit(ask, i % 2 == 0) for i in range(16)]
        assert streaming.wait(30)
        replica.kill()
        answers = [future.result() for future in asked]
    whole, streamed = answers[1::2], answers[::2]
    assert all(json.loads(text)["choices"] for text in whole)
    for text in streamed:
        assert "[DONE]" in text or '"engine_lost"' in text
    assert any('"engine_lost"' in text for text in streamed)
    assert client.post(CHAT, json=HELLO).status_code == 200


def test_a_rollout_fails_no_request_and_goes_back(
    store: ModelStore, server: Running, client: httpx.Client
) -> None:
    stop, seen, failed = threading.Event(), [], []

    def ask() -> None:
        while not stop.is_set():
            reply = client.post(CHAT, json=HELLO)
            seen.append(reply.headers.get("x-rldf-version"))
            if reply.status_code != 200:
                failed.append(reply.text)

    askers = [threading.Thread(target=ask) for _ in range(4)]
    for asker in askers:
        asker.start()
    try:
        for percent, version in ((50, "v0002"), (100, "v0002"), (100, "v0001")):
            store.rollout(version, percent)
            del seen[:]
            deadline = time.monotonic() + 20
            while version not in seen[-8:] or (percent == 100 and len(set(seen[-8:])) > 1):
                assert time.monotonic() < deadline, (percent, version, seen[-8:])
                time.sleep(0.1)
    finally:
        stop.set()
        for asker in askers:
            asker.join()
    assert failed == []


def test_shutdown_finishes_what_has_begun(server: Running, client: httpx.Client) -> None:
    with client.stream("POST", CHAT, json={**HELLO, "stream": True}) as reply:
        lines = reply.iter_lines()
        next(lines)
        ended = threading.Thread(target=server.stop)
        ended.start()
        assert "data: [DONE]" in list(lines)
    ended.join()
    assert server.process.returncode == 0, server.log.read_text()


def test_it_refuses_other_addresses_without_keys(store: ModelStore, tmp_path: Path) -> None:
    model = str(store.folder("v0001"))
    with (
        pytest.raises(AssertionError, match="rldf serve key"),
        running(model, "--host", "0.0.0.0", log=tmp_path / "log.txt"),
    ):
        pass
    assert add_key(tmp_path / "keys.json", "ann").startswith("rldf-")
