"""What a connection may cost before its request is whole, on real sockets."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import uvicorn

from rldf_ray.apps.serve import connections, proxy
from rldf_ray.apps.serve.connections import HEAD_BYTES, MOST_FIELDS, Connection

GET = b"GET / HTTP/1.1\r\nhost: x\r\n"
LATER_S = 30


class App:
    """Answers at once, without reading, or as slowly as the path says; keeps what it was asked."""

    def __init__(self) -> None:
        self.scopes: list[Any] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scopes.append(scope)
        if scope["path"] == "/read":
            while (await receive()).get("more_body"):
                pass
        if scope["path"] == "/slow":
            await asyncio.sleep(1)
        status = 413 if scope["path"] == "/refused" else 200
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b"answered"})


@pytest.fixture
def app() -> App:
    return App()


@pytest.fixture
def port(app: App, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(connections, "HEAD_S", 0.5)
    monkeypatch.setattr(connections, "LINGER_S", 0.5)
    monkeypatch.setitem(uvicorn.config.HTTP_PROTOCOLS, "auto", "none")
    proxy.bound()
    web = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical", lifespan="off"))
    thread = threading.Thread(target=web.run)
    thread.start()
    while not web.started:
        time.sleep(0.01)
    yield web.servers[0].sockets[0].getsockname()[1]
    web.should_exit = True
    thread.join()
    assert not Connection._half


def sent(port: int, *pieces: bytes, pause_s: float = 0.0) -> bytes:
    """What is answered to `pieces` until the server closes."""
    with socket.create_connection(("127.0.0.1", port), LATER_S) as client:
        for piece in pieces:
            try:
                client.sendall(piece)
            except OSError:
                break
            time.sleep(pause_s)
        return rest(client)


def rest(client: socket.socket) -> bytes:
    found = b""
    while piece := client.recv(1 << 16):
        found += piece
    return found


def refusal(answer: bytes) -> tuple[int, str]:
    """Status and message of an error in the API's format."""
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error"]["message"]


def test_requests_and_connections_that_stay_open_work(port: int, app: App) -> None:
    with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        for _ in range(3):
            assert client.get("/").text == "answered"
            assert client.post("/read", content=b"x" * (1 << 20)).text == "answered"
        assert client.post("/refused", content=b"x" * (1 << 20)).status_code == 413
        assert client.get("/", headers={"connection": "close"}).text == "answered"
        assert client.get("/slow").text == "answered"
    both = sent(port, GET + b"\r\n" + GET + b"connection: close\r\n\r\n")
    assert both.count(b"answered") == 2
    assert len(app.scopes) == 11


@pytest.mark.parametrize(
    "pieces",
    [
        [GET, b"x-long: " + b"a" * (HEAD_BYTES + 10) + b"\r\n\r\n"],
        [GET, b"x-long: ", *[b"a" * (1 << 20)] * 20],
        [b"GET /" + b"a" * HEAD_BYTES + b" HTTP/1.1\r\nhost: x\r\n\r\n"],
        [b"GET /", *[b"a" * (1 << 20)] * 20],
        [GET, b"x: y\r\n" * MOST_FIELDS + b"\r\n"],
        [GET, *[b"x: y\r\n" * 100_000] * 20],
        [b"\r\n" * 100_000],
        [b"POST /read HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n", b"x: y\r\n" * 200],
        [b"POST /read HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: ", b"a" * (1 << 20)],
    ],
)
def test_a_head_that_is_too_large_is_refused(port: int, app: App, pieces: list[bytes]) -> None:
    status, message = refusal(sent(port, *pieces))
    assert status == 431 and ("bytes" in message or "fields" in message)
    assert all(scope["path"] == "/read" for scope in app.scopes)


def test_what_is_no_http_is_refused_in_the_apis_format(port: int) -> None:
    assert refusal(sent(port, b"\x16\x03\x01\x02\x00\x01nonsense\r\n\r\n"))[0] == 400
    chunked = b"POST /read HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n\r\n"
    assert refusal(sent(port, chunked))[0] == 400


def test_a_body_beyond_what_settings_allow_is_not_read(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MOST_BODY_BYTES", 1 << 20)
    head = b"POST /read HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999\r\n\r\n"
    assert refusal(sent(port, head, *[b"x" * (1 << 16)] * 100))[0] == 413


@pytest.mark.parametrize("pieces", [[GET], [GET[:3]], [b"P"], [b"GET /", *[b"x"] * 20]])
def test_half_a_request_is_ended_in_time(port: int, pieces: list[bytes]) -> None:
    began = time.monotonic()
    assert refusal(sent(port, *pieces, pause_s=0.1))[0] == 408
    assert time.monotonic() - began < 10


def test_connections_without_a_request_are_closed(port: int) -> None:
    assert sent(port) == b""
    with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        assert client.get("/").text == "answered"
        time.sleep(1)
        assert client.get("/").text == "answered"


def test_a_thousand_half_requests_leave_no_connection(port: int) -> None:
    clients = [socket.create_connection(("127.0.0.1", port), LATER_S) for _ in range(300)]
    for client in clients:
        client.sendall(GET)
    assert {refusal(rest(client))[0] for client in clients} == {408}
    for client in clients:
        client.close()


def test_the_oldest_half_request_gives_way(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 20)
    monkeypatch.setattr(connections, "MOST_HALF", 3)
    clients = [socket.create_connection(("127.0.0.1", port), LATER_S) for _ in range(3)]
    for client in clients:
        client.sendall(GET)
    assert httpx.get(f"http://127.0.0.1:{port}").text == "answered"
    assert rest(clients[0]) == b""
    clients[1].sendall(b"connection: close\r\n\r\n")
    assert b"answered" in rest(clients[1])
    for client in clients:
        client.close()


@pytest.mark.parametrize("asks", [b"", b"connection: close\r\n"])
def test_an_answer_to_what_is_still_being_sent_arrives(port: int, asks: bytes) -> None:
    head = b"POST /refused HTTP/1.1\r\nhost: x\r\ncontent-length: 50000000\r\n" + asks + b"\r\n"
    answer = sent(port, head, *[b"x" * (1 << 20)] * 8, pause_s=0.01)
    assert answer.startswith(b"HTTP/1.1 413") and answer.endswith(b"answered\r\n0\r\n\r\n")


def test_garbage_behind_a_request_does_not_take_its_answers_place(port: int) -> None:
    answer = sent(port, b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n", b"\x00\x01 nonsense\r\n\r\n")
    assert b"400" not in answer


def test_clients_do_not_say_how_serve_handles_their_request(port: int, app: App) -> None:
    named = {name.decode(): "1" for name in connections.SERVES_OWN}
    httpx.get(f"http://127.0.0.1:{port}", headers=named | {"x-mine": "1"})
    names = [name for name, _ in app.scopes[0]["headers"]]
    assert b"x-mine" in names and not {*names} & {*connections.SERVES_OWN}
