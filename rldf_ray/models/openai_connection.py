"""The connection to an OpenAI-compatible server: one request, one checked reply."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from openai import AsyncOpenAI, DefaultAsyncHttpxClient, Timeout

from rldf_ray.models.base import ModelError
from rldf_ray.models.openai_checked import Reply, checked
from rldf_ray.plan import Endpoint

NO_KEY = "none"
CONNECTING = 0.9
"""The part of `endpoint.timeout_s` that a connection may take.

It ends before the whole, as a request that was never sent costs nothing, and one that got no answer
may.
"""


@dataclass(frozen=True)
class _Sockets:
    """They belong to one event loop."""

    loop: asyncio.AbstractEventLoop
    client: AsyncOpenAI


class Connection:
    """A server, reached with one key from whichever event loop runs.

    Raises:
        ModelError: the key's variable is not set (a server at `base_url` needs none), or
            `base_url` is no HTTP URL.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        if endpoint.base_url is not None and urlsplit(endpoint.base_url).scheme not in (
            "http",
            "https",
        ):
            raise ModelError(
                f"endpoint.base_url={endpoint.base_url}: a URL begins with http:// or https://"
            )
        self._endpoint = endpoint
        self._key = _api_key(endpoint)
        self._url = endpoint.base_url or ""
        self._sockets: _Sockets | None = None

    @property
    def url(self) -> str:
        """Where the server is, without what may be secret in it; empty before the first request
        where the openai package chooses."""
        parts = urlsplit(self._url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()

    async def post(self, body: dict[str, Any]) -> Reply:
        """One try.

        Raises:
            APIStatusError: the server refused, by the status or in a reply of status 200.
            APIConnectionError, TimeoutError: no reply, or not in `endpoint.timeout_s`.
            ForeignReplyError, MalformedReplyError: a reply that is no answer.
        """
        client = self._client()
        asking: dict[str, Any] = dict(body)
        # The client's own timeout starts anew with every piece received; this is for the whole.
        async with asyncio.timeout(self._endpoint.timeout_s):
            raw = await client.chat.completions.with_raw_response.create(
                model=asking.pop("model"), messages=asking.pop("messages"), extra_body=asking
            )
        return checked(raw.http_response)

    async def close(self) -> None:
        """Close the sockets; a later request opens new ones."""
        sockets, self._sockets = self._sockets, None
        if sockets is not None and sockets.loop is asyncio.get_running_loop():
            await sockets.client.close()

    def without_key(self, text: str) -> str:
        """A server may repeat the key in what it says; it must not reach a log."""
        return text if self._key == NO_KEY else text.replace(self._key, "[key]")

    def _client(self) -> AsyncOpenAI:
        """Sockets cannot move between event loops, so each `asyncio.run` gets its own."""
        loop, limit_s = asyncio.get_running_loop(), self._endpoint.timeout_s
        if self._sockets is None or self._sockets.loop is not loop:
            client = AsyncOpenAI(
                api_key=self._key,
                base_url=self._endpoint.base_url,
                timeout=Timeout(limit_s, connect=CONNECTING * limit_s),
                max_retries=0,
                # The package's own would, once dropped, close its sockets in the wrong loop.
                # A prompt goes to the host that the plan names and to no other.
                http_client=DefaultAsyncHttpxClient(follow_redirects=False),
            )
            self._url = str(client.base_url)
            self._sockets = _Sockets(loop, client)
        return self._sockets.client


def _api_key(endpoint: Endpoint) -> str:
    key = os.environ.get(endpoint.api_key_env, "").strip()
    if not key and endpoint.base_url is not None:
        return NO_KEY
    if not key:
        raise ModelError(
            f"the environment variable {endpoint.api_key_env} is not set: put the endpoint's key "
            "into it, name another variable in endpoint.api_key_env, or set endpoint.base_url to "
            "a server that needs none"
        )
    if not (key.isascii() and key.isprintable()):
        raise ModelError(
            f"the environment variable {endpoint.api_key_env} holds characters that no key has"
        )
    return key
