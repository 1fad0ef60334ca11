"""What a connection to Serve's proxy may cost before its request is whole, and known to the guard.

The proxy reads whatever is sent before it knows who sends it, and uvicorn, on which it is built,
bounds neither a request's head nor the time to send it.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from rldf_ray.apps.serve.guard import RefusedError
from rldf_ray.apps.serve.settings import MOST_BODY_BYTES
from rldf_ray.storage.json_text import json_text

# Request line, header fields and trailers; browsers and proxies send a tenth of it.
HEAD_BYTES = 32 << 10
MOST_FIELDS = 100
HEAD_S = 10.0
# A client that is answered while it is still sending gets so long to end, and to read the answer: a
# socket that is closed with something unread takes the answer with it.
LINGER_S = 5.0
# Connections whose request is not whole; the oldest gives way to a new one.
MOST_HALF = 2048
# What Serve's proxy would obey: clients are not to say that they be answered after they have gone.
SERVES_OWN = (b"x-request-disconnect-disabled", b"x-request-timeout-seconds")


class Connection(HttpToolsProtocol):
    """uvicorn's connection within bounds; what it refuses is answered in the API's error format."""

    _half: ClassVar[dict[Connection, None]] = {}

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._timer: asyncio.TimerHandle | None = None
        self._refusal: RefusedError | None = None
        self._unread = 0  # bytes since the last part of a request that was whole
        self._head = 0
        self._body = 0
        self._in_body = False
        self._closes = False  # as soon as the request has been read
        self._over = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._settle()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._over:
            return
        if self._timer is None and not self._in_body:
            self._await_head()
        self._unread += len(data)
        super().data_received(data)
        if self._unread > HEAD_BYTES and not self._over:
            self._refuse(_too_long())

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head = self._body = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head += len(name) + len(value) + 4
        if len(self.headers) >= MOST_FIELDS:
            self._stop(RefusedError(431, f"a request has at most {MOST_FIELDS} header fields"))
        if name.lower() not in SERVES_OWN:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self._head + len(self.url) > HEAD_BYTES:
            self._stop(_too_long())
        self._settle()
        self._in_body, self._unread = True, 0
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not before:
            # uvicorn would close at the end of the answer, read or not what is still being sent.
            self._closes = not self.cycle.keep_alive
            self.cycle.keep_alive = True

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        self._body += len(body)
        if self._body > MOST_BODY_BYTES:
            self._stop(RefusedError(413, f"the body is larger than {MOST_BODY_BYTES} bytes"))
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_body, self._unread = False, 0
        super().on_message_complete()
        if self.cycle is not None and self.cycle.response_complete:
            self._settle()
            self._end_or_await()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._answering:
            return  # the next of several that were sent at once
        if self._in_body:
            self._settle()
            self._timer = self.loop.call_later(LINGER_S, self.transport.close)
        elif self._closes:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        self._refuse(self._refusal or RefusedError(400, msg))

    def handle_websocket_upgrade(self) -> None:
        self._settle()
        super().handle_websocket_upgrade()

    def _await_head(self) -> None:
        self._timer = self.loop.call_later(HEAD_S, self._too_slow)
        self._half[self] = None
        if len(self._half) > MOST_HALF:
            next(iter(self._half)).transport.abort()

    def _end_or_await(self) -> None:
        """The answer was there before the whole request was."""
        if self._closes:
            self.transport.close()
        else:
            self._await_head()

    def _settle(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._half.pop(self, None)

    def _too_slow(self) -> None:
        self._settle()
        if self._answering:
            self._await_head()
        elif self._unread:
            self._refuse(
                RefusedError(408, f"the head of the request did not arrive in {HEAD_S:g} s")
            )
        else:
            self.transport.close()

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _stop(self, refusal: RefusedError) -> None:
        """End the parsing, which makes an error of its own of what is raised."""
        self._refusal = refusal
        raise refusal

    def _refuse(self, refusal: RefusedError) -> None:
        """Answer, if nothing else has been, and close once the client can have read it."""
        self._over = True
        self._settle()
        self._unset_keepalive_if_required()
        if not self._may_answer():
            self.transport.close()
            return
        if self._answering:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.flow.resume_reading()
        self.transport.write(_answer(refusal))
        self.transport.write_eof()
        self._timer = self.loop.call_later(LINGER_S, self.transport.abort)

    def _may_answer(self) -> bool:
        """Whether what is written now is the answer to the request that is refused."""
        if self.transport.is_closing() or not self.transport.can_write_eof():
            return False
        if not self._answering:
            return True
        return self._in_body and not self.cycle.response_started and not self.pipeline


def _too_long() -> RefusedError:
    return RefusedError(431, f"the head of a request has at most {HEAD_BYTES} bytes")


def _answer(refusal: RefusedError) -> bytes:
    body = json_text(refusal.content).encode()
    head = (
        f"HTTP/1.1 {refusal.status} {HTTPStatus(refusal.status).phrase}\r\n"
        "content-type: application/json\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode("ascii") + body
