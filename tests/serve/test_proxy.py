"""Answers whose API replica has died end in the API's form."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from starlette.middleware import Middleware

from rldf_ray.apps.serve.proxy import CALLBACK, Ended, bound


class Serve:
    """Serve's proxy: sends the given messages, and no more where the replica has died."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self.messages = messages

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        for message in self.messages:
            await send(message)


def begins(status: int, kind: str, *headers: tuple[bytes, bytes]) -> dict[str, Any]:
    named = [(b"content-type", kind.encode()), *headers]
    return {"type": "http.response.start", "status": status, "headers": named}


def part(body: bytes, more: bool = True) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}


async def asked(*messages: dict[str, Any], path: str = "/v1/chat/completions") -> httpx.Response:
    transport = httpx.ASGITransport(Ended(Serve(*messages)))
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        return await client.post(path)


async def test_a_replica_that_dies_before_it_answers_is_a_503_in_the_apis_form() -> None:
    reply = await asked()
    assert reply.status_code == 503 and reply.headers["retry-after"] == "1"
    assert reply.json()["error"]["code"] == "api_lost"


async def test_a_stream_that_is_cut_ends_with_an_error_event() -> None:
    stream = begins(200, "text/event-stream; charset=utf-8")
    reply = await asked(stream, part(b'data: {"x": 1}\n\n'))
    *_, last = [line for line in reply.text.splitlines() if line]
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "api_lost"


@pytest.mark.parametrize("path", ["/v1/debate", "/v1/debias", "/v1/evince"])
async def test_a_stream_of_named_events_that_is_cut_ends_with_one_of_them(path: str) -> None:
    stream = begins(200, "text/event-stream; charset=utf-8")
    reply = await asked(stream, part(b"event: statement\ndata: {}\n\n"), path=path)
    *_, event, data = [line for line in reply.text.splitlines() if line]
    assert event == "event: error" and json.loads(data.removeprefix("data: "))["message"]


@pytest.mark.parametrize("status", [408, 429, 503])
async def test_what_serve_says_itself_gets_the_apis_form(status: int) -> None:
    plain = begins(status, "text/plain; charset=utf-8", (b"retry-after", b"7"))
    reply = await asked(plain, part(b"Deployment "), part(b"is unavailable.", more=False))
    assert reply.status_code == status and reply.headers["retry-after"] == "7"
    assert reply.json()["error"]["message"]


async def test_other_answers_pass_as_they_are() -> None:
    reply = await asked(begins(503, "application/json"), part(b"{}", more=False))
    assert (reply.status_code, reply.text) == (503, "{}")
    reply = await asked(begins(200, "text/plain"), part(b"a"), part(b"b", more=False))
    assert (reply.status_code, reply.text) == (200, "ab")


def test_serve_finds_the_callback() -> None:
    assert CALLBACK == {
        "RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH": "rldf_ray.apps.serve.proxy:bound"
    }
    assert all(isinstance(added, Middleware) for added in bound())
