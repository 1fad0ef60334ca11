"""What every request passes before anything reads it: who it is, how much it may, how big it is.

host -> draining? -> key -> allowance -> room -> body within size and time -> the application
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rldf_ray.apps.serve.caller import Caller
from rldf_ray.apps.serve.keys import Key, KeyRing
from rldf_ray.apps.serve.limits import Limits as KeyLimits
from rldf_ray.apps.serve.limits import LimitsGoneError
from rldf_ray.apps.serve.metrics import Metrics
from rldf_ray.apps.serve.reservation import reservation
from rldf_ray.apps.serve.settings import Limits
from rldf_ray.errors import UserError

# Needed before a person has typed a key, or by whoever restarts and routes.
PROBES = ("/health", "/ready")
OPEN_PATHS = ("/", *PROBES)
OPEN_FOLDERS = ("/page/",)

log = logging.getLogger("rldf.serve")


class RefusedError(UserError):
    """An answer that ends a request here, in OpenAI's error format."""

    def __init__(
        self,
        status: int,
        message: str,
        kind: str = "invalid_request_error",
        code: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.content = error_content(message, kind, code)
        self.retry_after_s = retry_after_s

    def headers(self) -> dict[str, str]:
        found = {} if self.retry_after_s is None else {"retry-after": f"{self.retry_after_s:.0f}"}
        return found | ({"www-authenticate": "Bearer"} if self.status == 401 else {})


def error_content(
    message: str, kind: str, code: str | None = None, param: str | None = None
) -> dict[str, Any]:
    """OpenAI's error object."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def _used_up(key: Key, wait_s: float) -> RefusedError:
    return RefusedError(
        429,
        f"the limits of key {key.name!r} are used up",
        "rate_limit_error",
        "rate_limit_exceeded",
        retry_after_s=wait_s + 1,
    )


@dataclass(kw_only=True)
class Guard:
    """ASGI middleware around the whole application."""

    app: ASGIApp
    limits: Limits
    keys: KeyRing | None
    allowances: KeyLimits
    metrics: Metrics
    serves_host: Callable[[str], bool] = lambda given: True
    draining: bool = field(default=False)
    under_way: int = field(default=0)
    of_key: Counter[str | None] = field(default_factory=Counter)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        caller = Caller()
        scope.setdefault("state", {}).update(caller=caller, draining=self.draining)
        began, status, complete = time.monotonic(), 499, False

        async def sending(message: Message) -> None:
            nonlocal status, complete
            if message["type"] == "http.response.start":
                status = message["status"]
            complete = message["type"] == "http.response.body" and not message.get("more_body")
            await send(message)

        try:
            await self._pass(scope, receive, sending, caller)
        except LimitsGoneError as gone:
            refused = RefusedError(503, str(gone), "server_error", retry_after_s=1)
            await _answer(sending, refused.status, refused.content, refused.headers())
        except RefusedError as refused:
            await _answer(sending, refused.status, refused.content, refused.headers())
        except Exception:
            # The text of the request stays out of the log; the traceback has code only.
            log.exception("failed on %s", _route(scope))
            if status != 499 and not complete:
                raise  # half an answer is out: the connection has to break
        finally:
            if not complete:
                caller.cut_short()
            await self._account(scope, caller, status, time.monotonic() - began)

    async def _pass(self, scope: Scope, receive: Receive, send: Send, caller: Caller) -> None:
        path: str = scope["path"]
        # Whoever looks after the process asks at an address that only it knows.
        if path not in PROBES and not self.serves_host(_header(scope, b"host")):
            raise RefusedError(
                403,
                "this server has no such name (Host): ask at its address, or let `hosts` in its "
                "settings have the name",
                code="unknown_host",
            )
        if path in OPEN_PATHS or path.startswith(OPEN_FOLDERS):
            await self.app(scope, receive, send)
            return
        if self.draining:
            raise RefusedError(503, "this server is shutting down", "server_error", retry_after_s=5)
        caller.key = self._known(scope)
        if caller.key is not None and (wait_s := await self.allowances.admit(caller.key)):
            raise _used_up(caller.key, wait_s)
        if self.under_way >= self.limits.in_flight:
            raise RefusedError(
                429, "too many requests under way", "rate_limit_error", retry_after_s=1
            )
        name = caller.key.sha256 if caller.key is not None else None
        if name is not None and self.of_key[name] >= self.limits.in_flight_per_key:
            raise RefusedError(
                429, "too many requests of this key under way", "rate_limit_error", retry_after_s=1
            )
        self.under_way += 1
        self.of_key[name] += 1
        self.metrics.in_flight.set(self.under_way)
        try:
            body = await self._body(scope, receive)
            await self._reserve(caller, path, body)
            await self.app(scope, _replayed(body, receive), send)
        finally:
            self.under_way -= 1
            self.of_key[name] -= 1
            self.of_key += Counter()  # forgets those that have none
            self.metrics.in_flight.set(self.under_way)

    async def _reserve(self, caller: Caller, path: str, body: bytes) -> None:
        """Keep the tokens that a request may come to, before any of its work begins."""
        kept = reservation(path, body, self.limits)
        if kept is None:
            return
        if caller.key is not None:
            if wait_s := await self.allowances.reserve(caller.key, kept.total):
                raise _used_up(caller.key, wait_s)
            caller.reserved = kept.total
        caller.prompt = kept.prompt

    def _known(self, scope: Scope) -> Key | None:
        """The caller's key; None where this server asks for none."""
        if self.keys is None:
            return None
        given = _header(scope, b"authorization")
        kind, _, key = given.partition(" ")
        found = self.keys.find(key.strip()) if kind.lower() == "bearer" else None
        if found is None:
            raise RefusedError(
                401,
                "this server needs a valid API key: Authorization: Bearer KEY",
                "authentication_error",
                "invalid_api_key",
            )
        return found

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        length = _header(scope, b"content-length")
        if length.isdigit() and len(length) < 20 and int(length) > self.limits.body_bytes:
            raise self._too_large()
        body = bytearray()
        try:
            async with asyncio.timeout(self.limits.body_timeout_s):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise RefusedError(
                            400, "the connection closed before the body was complete"
                        )
                    body += message.get("body", b"")
                    if len(body) > self.limits.body_bytes:
                        raise self._too_large()
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            raise RefusedError(
                408, f"the body did not arrive in {self.limits.body_timeout_s:g} s"
            ) from None

    def _too_large(self) -> RefusedError:
        return RefusedError(413, f"the body is larger than {self.limits.body_bytes} bytes")

    async def _account(self, scope: Scope, caller: Caller, status: int, seconds: float) -> None:
        if caller.key is not None:
            await self.allowances.settle(caller.key, caller.tokens, caller.reserved)
        route = _route(scope)
        self.metrics.requests.labels(route, str(status)).inc()
        self.metrics.seconds.labels(route).observe(seconds)
        if route not in OPEN_PATHS:
            asked = next(iter(caller.targets.values()), None)
            log.info(
                "%s %s status=%d key=%s model=%s version=%s tokens=%d seconds=%.3f",
                scope["method"],
                route,
                status,
                caller.key.name if caller.key is not None else "-",
                (asked and asked.model) or "-",
                (asked and asked.version) or "-",
                caller.tokens,
                seconds,
            )


def _route(scope: Scope) -> str:
    """The route's pattern: paths people make up must not become metrics or log lines."""
    path = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) else "other"


def _header(scope: Scope, name: bytes) -> str:
    values = [value for key, value in scope["headers"] if key.lower() == name]
    return values[0].decode("latin-1") if len(values) == 1 else ""


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body that was read, then whatever else comes: the client's going away."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


async def _answer(
    send: Send, status: int, content: dict[str, Any], headers: dict[str, str]
) -> None:
    body = json.dumps(content).encode()
    fixed = {"content-type": "application/json", "content-length": str(len(body))}
    pairs = [(name.encode(), value.encode()) for name, value in (fixed | headers).items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})
