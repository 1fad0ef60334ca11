"""What a request may come to is kept of its key's tokens before it begins."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.apps.serve.engines import (
    EngineDiedError,
    EngineFailedError,
    EngineRefusedError,
    EngineRequest,
    Stream,
    Target,
)
from rldf_ray.apps.serve.keys import add_key
from rldf_ray.apps.serve.reservation import reservation
from rldf_ray.apps.serve.scripted import ScriptedEngines
from rldf_ray.apps.serve.settings import Limits
from tests.serve.conftest import Server, Start

PROTOCOLS = ("/v1/debate", "/v1/evince", "/v1/debias", "/v1/bias")
QUESTION = {"messages": [{"role": "user", "content": "Who could not use the phone? " * 20}]}
LARGE = {
    "/v1/debate": {"topic": "pensions " * 200, "debaters": 5, "rounds": 5, "max_tokens": 1024},
    "/v1/evince": {"text": "a bridge " * 2000, "rounds": 5, "max_tokens": 1024},
    "/v1/debias": {**QUESTION, "corpus": "texts", "max_passes": 5, "max_tokens": 1024},
    "/v1/bias": {"input": ["a text"] * 64, "prompt": "why " * 1000, "referee": True},
}


@pytest.mark.parametrize(
    ("body", "most"),
    [
        (b'{"max_tokens": 7}', 7),
        (b'{"max_output_tokens": 7}', 7),
        (b'{"max_tokens": 0, "echo": true}', 0),
        (b'{"max_tokens": 7, "n": 3}', 21),
        (b'{"max_tokens": 7, "prompt": ["a", "b"], "n": 2}', 28),
        (b'{"max_tokens": 7, "prompt": [[1], [2]]}', 14),
        (b'{"max_tokens": 7, "prompt": [1, 2, 3]}', 7),
        (b"{}", 1024),
        (b'{"max_tokens": 99999, "n": 99}', 8 * 1024),
        (b'{"max_tokens": "7"}', 8 * 1024),
        (b'{"max_tokens": 7, "user": NaN}', 8 * 1024),
        ('{"max_tokens": 7}'.encode("utf-16"), 8 * 1024),
    ],
)
def test_the_answers_to_a_text_are_as_long_as_it_says(body: bytes, most: int) -> None:
    kept = reservation("/v1/completions", body, Limits())
    assert kept is not None and kept.total - kept.prompt == most
    assert kept.prompt == len(body) // 4


def settled_by(server: Server) -> list[tuple[int, int]]:
    """What each request has used in the end, and what was kept for it."""
    settled: list[tuple[int, int]] = []
    settle = server.guard.allowances.settle

    async def settling(key: Any, used: int, reserved: int = 0) -> None:
        settled.append((used, reserved))
        await settle(key, used, reserved)

    server.guard.allowances.settle = settling  # type: ignore[method-assign]
    return settled


class Cut(ScriptedEngines):
    """Engines that end in the middle of an answer, or before it."""

    def __init__(self, events: int, error: Exception | None) -> None:
        super().__init__()
        self.events, self.error = events, error

    async def generate(self, target: Target, request: EngineRequest) -> Stream:
        for _ in range(self.events):
            yield ["data: {}\n\n"]
        if self.error is not None:
            raise self.error
        await asyncio.sleep(600)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("events", "error", "status"),
    [
        (0, None, 504),
        (3, None, 200),
        (0, EngineFailedError("a bug"), 500),
        (3, EngineFailedError("a bug"), 200),
        (0, EngineDiedError("gone"), 503),
        (0, EngineRefusedError(400, "no"), 400),
    ],
)
def test_what_an_engine_has_read_is_paid_for_once(
    start: Start, tmp_path: Path, stream: bool, events: int, error: Exception | None, status: int
) -> None:
    if events and not stream:
        return
    key = add_key(tmp_path / "keys.json", "ann", tokens_per_minute=1e6)
    limits = {"request_timeout_s": 0.3 if error is None else 60}
    server = start(Cut(events, error), keys=str(tmp_path / "keys.json"), limits=limits)
    settled = settled_by(server)
    body = json.dumps({"messages": [{"role": "user", "content": "w " * 800}], "stream": stream})
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    reply = server.client.post("/v1/chat/completions", content=body, headers=headers)
    assert reply.status_code == status
    ((used, _),) = settled
    assert used == (0 if status == 400 else len(body) // 4 + events)


async def test_a_client_that_goes_in_the_middle_pays_its_prompt_once(
    start: Start, tmp_path: Path
) -> None:
    key = add_key(tmp_path / "keys.json", "ann", tokens_per_minute=1e6)
    server = start(Cut(2, None), keys=str(tmp_path / "keys.json"))
    settled = settled_by(server)
    body = json.dumps({"messages": [{"role": "user", "content": "w " * 800}], "stream": True})
    headers = [(b"authorization", f"Bearer {key}".encode()), (b"host", b"127.0.0.1")]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/chat/completions",
        "query_string": b"",
        "headers": [*headers, (b"content-type", b"application/json")],
    }
    inbox: asyncio.Queue[Any] = asyncio.Queue()
    inbox.put_nowait({"type": "http.request", "body": body.encode()})
    pieces = 0

    async def send(message: Any) -> None:
        nonlocal pieces
        pieces += message["type"] == "http.response.body"
        if pieces == 2:
            inbox.put_nowait({"type": "http.disconnect"})

    await server.guard(scope, inbox.get, send)
    ((used, _),) = settled
    assert used == len(body) // 4 + 2


@pytest.mark.parametrize("path", ["/v1/models", "/tokenize", "/", "/v1/bias/", "/v1/debatex"])
def test_what_asks_no_model_keeps_nothing(path: str) -> None:
    assert reservation(path, b"{}", Limits()) is None


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/debate", {"topic": "Tests", "debaters": 2, "rounds": 1}),
        ("/v1/debate", {"topic": "Tests", "debaters": 5, "rounds": 5, "max_tokens": 96}),
        ("/v1/debate", {"topic": "Tests are fun. " * 100, "rounds": 3, "max_tokens": 300}),
        ("/v1/evince", {"text": "The mayor opened the bridge.", "rounds": 1}),
        ("/v1/evince", {"text": "A bridge. " * 200, "rounds": 5, "given": "neutral"}),
        ("/v1/debias", QUESTION),
        ("/v1/debias", {**QUESTION, "options": ["The old man", "The young man"], "max_passes": 5}),
        ("/v1/bias", {"input": ["a text", "another one"]}),
        ("/v1/bias", {"input": ["a text"] * 64, "prompt": "why " * 1000, "referee": True}),
        ("/v1/bias", {"input": "text " * 1000, "referee": True}),
    ],
)
def test_a_protocol_uses_no_more_than_was_kept(
    start: Start, tmp_path: Path, path: str, body: dict[str, Any]
) -> None:
    key = add_key(tmp_path / "keys.json", "ann", tokens_per_minute=1e6)
    server = start(keys=str(tmp_path / "keys.json"))
    settled = settled_by(server)
    headers = {"authorization": f"Bearer {key}"}
    reply = server.client.post(path, json=body, headers=headers)
    assert reply.status_code == 200 and "event: error" not in reply.text, reply.text
    ((used, reserved),) = settled
    assert used <= reserved
    assert used > reserved / 40 or not used


@pytest.mark.parametrize("path", PROTOCOLS)
def test_a_body_that_cannot_be_read_is_counted_as_the_largest(path: str) -> None:
    limits = Limits()
    largest = reservation(path, json.dumps(LARGE[path]).encode(), limits)
    wrong = json.dumps({**LARGE[path], "no such field": 1}).encode()
    assert largest is not None
    for body in (wrong, wrong.decode().encode("utf-16")):
        kept = reservation(path, body, limits)
        assert kept is not None and kept.total >= largest.total * 0.9


@given(
    path=st.sampled_from(PROTOCOLS),
    number=st.integers(-1, 10**12) | st.just(10**400),
    text=st.text(),
    scale=st.text() | st.just("/etc/passwd"),
)
def test_no_body_is_too_much_to_count(path: str, number: int, text: str, scale: str) -> None:
    fields = ("debaters", "rounds", "max_tokens", "max_passes", "seed")
    body = {**LARGE[path], **{name: number for name in fields if name in LARGE[path]}}
    for name in ("topic", "text", "scale", "input"):
        if name in body or (name == "scale" and path == "/v1/evince"):
            body[name] = scale if name == "scale" else text
    kept = reservation(path, json.dumps(body).encode(), Limits())
    assert kept is not None and kept.total >= kept.prompt
    assert kept.total < 10**7
