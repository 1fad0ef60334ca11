"""The application on real Ray Serve with scripted engines: faults, rollouts, shutdown."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.running_server import Running, running
from rldf_ray.apps.serve.keys import add_key
from rldf_ray.apps.serve.store import ModelStore

pytestmark = pytest.mark.cluster

CHAT = "/v1/chat/completions"
HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "Hello"}]}
# A word takes a tenth of a second, and an answer has eight of them or more. So these last for about
# ten seconds and for a minute: long enough for what is done meanwhile, on a slow machine too.
LONG: dict[str, Any] = {**HELLO, "n": 12}
LONGER: dict[str, Any] = {**HELLO, "n": 72, "stream": True}
DEADLINE_S = 600


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ModelStore:
    folder = tmp_path_factory.mktemp("model")
    (folder / "config.json").write_text("{}", encoding="utf-8")
    store = ModelStore(tmp_path_factory.mktemp("store"), "policy")
    store.publish(folder)
    store.publish(folder)
    return store


@pytest.fixture(scope="module")
def server(store: ModelStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    log = tmp_path_factory.mktemp("log") / "serve.txt"
    settings = (
        "engine.kind=scripted", "engine.scripted_delay_s=0.1", "engine.cpus=0.1", "limits.n=72",
    )  # fmt: skip
    changes = [word for setting in settings for word in ("--set", setting)]
    model = str(store.folder("v0001"))
    with running(model, "--store", str(store.root), *changes, log=log) as server:
        yield server


@pytest.fixture
def client(server: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.address, timeout=DEADLINE_S) as client:
        yield client


def until(look: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not look():
        assert time.monotonic() < deadline, f"not in {DEADLINE_S} s: {what}"
        time.sleep(0.1)


def generating(client: httpx.Client) -> int | None:
    """Generations under way; None where the engine did not say so in time."""
    found: int | None = client.get("/ready").json()["generating"]["policy.v0001"]
    return found


def test_it_answers_and_streams(client: httpx.Client) -> None:
    until(lambda: bool(client.get("/ready").json()["ready"]), "ready")
    assert client.get("/ready").json()["generating"].keys() == {"policy.v0001"}
    reply = client.post(CHAT, json=HELLO)
    assert reply.status_code == 200 and reply.headers["x-rldf-version"] == "v0001"
    with client.stream("POST", CHAT, json={**LONG, "stream": True}) as reply:
        lines = reply.iter_lines()
        assert next(lines).startswith("data: ")
        until(lambda: generating(client) == 1, "the first word is here before the last is made")
        *_, done = [line for line in lines if line]
    assert done == "data: [DONE]"


def test_a_client_that_goes_cancels_the_generation(client: httpx.Client) -> None:
    with client.stream("POST", CHAT, json=LONGER) as reply:
        lines = reply.iter_lines()
        next(lines)
    cancelled = 'rldf_cancelled_total{reason="client"} 1.0'
    until(lambda: cancelled in client.get("/metrics").text, "the API has cancelled it")
    until(lambda: generating(client) == 0, "the engine has ended it")


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
    begun = threading.Event()
    replica = server.replica("rldf-policy.v0001")

    def ask(body: dict[str, Any]) -> str:
        found = ""
        with client.stream("POST", CHAT, json=body) as reply:
            assert reply.status_code == 200
            for piece in reply.iter_text():
                found += piece
                begun.set()
        return found

    with ThreadPoolExecutor(16) as pool:
        longest = pool.submit(ask, LONGER)
        assert begun.wait(DEADLINE_S)
        whole = [pool.submit(ask, LONG) for _ in range(8)]
        streamed = [pool.submit(ask, {**HELLO, "stream": True}) for _ in range(7)]
        until(lambda: (generating(client) or 0) >= 9, "the whole answers are being made as well")
        replica.kill()
    assert all(len(json.loads(found.result())["choices"]) == LONG["n"] for found in whole)
    for found in streamed:
        assert "[DONE]" in found.result() or '"engine_lost"' in found.result()
    assert '"engine_lost"' in longest.result() and "[DONE]" not in longest.result()
    assert client.post(CHAT, json=HELLO).status_code == 200


def test_a_killed_api_replica_ends_what_it_was_answering_in_the_apis_form(
    server: Running, client: httpx.Client
) -> None:
    replica = server.named("ray::ServeReplica:rldf:Api")
    with client.stream("POST", CHAT, json=LONGER) as stream, ThreadPoolExecutor(1) as pool:
        lines = stream.iter_lines()
        assert next(lines).startswith("data: ")
        whole = pool.submit(client.post, CHAT, json=LONG)
        until(lambda: generating(client) == 2, "both are being answered")
        replica.kill()
        *_, last = [line for line in lines if line]
        assert json.loads(last.removeprefix("data: "))["error"]["code"] == "api_lost"
        assert whole.result().status_code == 503
        assert whole.result().json()["error"]["code"] == "api_lost"
    assert client.post(CHAT, json=HELLO).status_code == 200
    until(lambda: generating(client) == 0, "the engine has ended what nobody waits for")


def test_strangers_take_no_memory_of_the_proxy(server: Running, client: httpx.Client) -> None:
    proxy = server.named("ray::ProxyActor")
    address = ("127.0.0.1", int(server.address.rpartition(":")[2]))
    before = proxy.memory_info().rss
    for piece in (b"a" * (1 << 20), b"x: y\r\n" * 100_000):
        with socket.create_connection(address, DEADLINE_S) as stranger, suppress(ConnectionError):
            stranger.sendall(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nx: ")
            for _ in range(100):
                stranger.sendall(piece)
            assert b" 431 " in stranger.recv(100)
    halves = [socket.create_connection(address, DEADLINE_S) for _ in range(200)]
    for half in halves:
        half.sendall(b"GET / HTTP/1.1\r\n")
    assert all(b" 408 " in half.recv(100) for half in halves)
    for half in halves:
        half.close()
    assert proxy.memory_info().rss - before < 50 << 20
    assert client.get("/health").status_code == 200


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
            for_all = percent == 100

            def arrived(version: str = version, for_all: bool = for_all) -> bool:
                last = seen[-8:]
                return version in last and (not for_all or (len(last) == 8 and len(set(last)) == 1))

            until(arrived, f"{percent} % to {version}")
    finally:
        stop.set()
        for asker in askers:
            asker.join()
    assert failed == []


def test_shutdown_finishes_what_has_begun(server: Running, client: httpx.Client) -> None:
    with client.stream("POST", CHAT, json={**LONG, "stream": True}) as reply:
        lines = reply.iter_lines()
        next(lines)
        ended = threading.Thread(target=server.stop)
        ended.start()
        assert "data: [DONE]" in list(lines)
    ended.join()
    assert server.process.returncode == 0, server.log.read_text(encoding="utf-8")


def test_it_refuses_other_addresses_without_keys(store: ModelStore, tmp_path: Path) -> None:
    model = str(store.folder("v0001"))
    with (
        pytest.raises(AssertionError, match="rldf serve key"),
        running(model, "--host", "0.0.0.0", log=tmp_path / "log.txt"),
    ):
        pass
    assert add_key(tmp_path / "keys.json", "ann").startswith("rldf-")
