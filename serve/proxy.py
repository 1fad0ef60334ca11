"""What this project adds to Serve's proxies.

Serve calls `bound` in the process of a proxy before it listens, where the environment says so
(`RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH`); proxies have the environment of Serve's controller.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import uvicorn.config
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rldf_ray.apps.serve.guard import error_content
from rldf_ray.storage.json_text import json_text

CALLBACK = {"RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH": f"{__name__}:bound"}
LOST = "the server's API process was lost while it answered: ask again"
# What Serve says itself: no replica, too many requests, out of time.
SERVES_OWN = (408, 429, 503)
# Routes whose streams are of named events (serve.unfolding).
NAMED_EVENTS = ("/v1/debate", "/v1/debias", "/v1/evince")


def controller_options() -> dict[str, Any]:
    """The `controller_options` of Serve with which its proxies call `bound`."""
    return {"runtime_env": {"env_vars": dict(CALLBACK)}}


def bound() -> list[Middleware]:
    """Let uvicorn make a `serve.connections.Connection` of every connection, and end all answers.

    Serve has no setting for the class, and takes uvicorn's choice.
    """
    uvicorn.config.HTTP_PROTOCOLS["auto"] = "rldf_ray.apps.serve.connections:Connection"
    return [Middleware(Ended)]


@dataclass
class Ended:
    """ASGI middleware around the proxy: an answer whose API replica has died is ended in its form.

    Of a replica that dies Serve's proxy says nothing, and uvicorn then sends a plain 500 or cuts
    the connection.
    """

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = _Answer(send)
        await self.app(scope, receive, answer.send)
        if answer.begun is None:
            await _refuse(send, 503, LOST, [(b"retry-after", b"1")])
        elif not answer.complete and _kind(answer.begun).startswith("text/event-stream"):
            named = scope["path"].endswith(NAMED_EVENTS)
            await send({"type": "http.response.body", "body": _lost_event(named)})


@dataclass
class _Answer:
    """An answer on its way; Serve's own errors get the API's form."""

    _send: Send
    begun: Message | None = field(default=None)
    complete: bool = field(default=False)
    _replaced: bool = field(default=False)

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = message
            self._replaced = message["status"] in SERVES_OWN and _kind(message).startswith("text/")
            if not self._replaced:
                await self._send(message)
            return
        more = message.get("more_body", False)
        self.complete = message["type"] == "http.response.body" and not more
        if not self._replaced:
            await self._send(message)
        elif self.complete:
            assert self.begun is not None
            kept = [(k, v) for k, v in self.begun["headers"] if k.lower() == b"retry-after"]
            await _refuse(self._send, self.begun["status"], "the server cannot answer now", kept)


def _kind(begun: Message) -> str:
    named = {name.lower(): value for name, value in begun.get("headers", [])}
    return str(named.get(b"content-type", b"").decode("latin-1"))


def _lost_event(named: bool) -> bytes:
    """The last event of a stream, in the form that the others of its route have."""
    if named:
        return f"event: error\ndata: {json_text({'message': LOST})}\n\n".encode()
    return f"data: {json_text(error_content(LOST, 'server_error', 'api_lost'))}\n\n".encode()


async def _refuse(
    send: Send, status: int, message: str, headers: list[tuple[bytes, bytes]]
) -> None:
    body = json_text(error_content(message, "server_error", "api_lost")).encode()
    fixed = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode("ascii")),
    ]
    await send({"type": "http.response.start", "status": status, "headers": [*fixed, *headers]})
    await send({"type": "http.response.body", "body": body})
