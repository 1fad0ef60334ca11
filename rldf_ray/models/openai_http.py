"""OpenAI-compatible endpoints behind the one `ChatModel` interface.

complete --> ConcurrencyLimiter --> the budget --> tries with back-off --> the rate limit --> HTTP
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from openai import (
    APIStatusError,
    APITimeoutError,
    AsyncOpenAI,
    DefaultAsyncHttpxClient,
)
from openai.types.chat import ChatCompletion
from tenacity import (
    AsyncRetrying,
    Future,
    RetryError,
    retry_if_exception,
    stop_after_attempt,
)

from rldf_ray.models.base import ChatRequest, Completion, ModelError, Usage
from rldf_ray.models.limits import Budget, ConcurrencyLimiter, Rate, estimated
from rldf_ray.models.openai_left_out import LeftOut
from rldf_ray.models.openai_refusal import is_filtered, reason_of, refused_field
from rldf_ray.models.openai_reply import completions_of, is_chat_completion
from rldf_ray.models.openai_request import body_of
from rldf_ray.models.openai_retry import is_passing, retry_after_s, wait_s, worth_another_try
from rldf_ray.plan import Endpoint

log = logging.getLogger(__name__)

MOST_REASON = 300
NO_KEY = "none"

_ADVICE = {
    400: "the server says the request itself is wrong; no retry can help",
    403: "this key may not use the model: name another model or ask for access to it",
    404: "the server knows no such model or path: check the model's name and endpoint.base_url",
}


@dataclass(frozen=True)
class _Line:
    """The sockets, which belong to one event loop."""

    loop: asyncio.AbstractEventLoop
    client: AsyncOpenAI


class OpenAIModel:
    """A model at an OpenAI-compatible endpoint.

    429, 5xx, timeouts and dropped connections are tried again `endpoint.retries` times, after
    exponential back-off with jitter and never before the server's Retry-After; any other refusal,
    or a Retry-After of more than `LONGEST_RETRY_AFTER_S`, is final.

    Guided decoding of `choices` is asked of servers named by `endpoint.base_url` (vLLM's
    `structured_outputs`); elsewhere they are a plain request. The text comes back as the server
    sent it, and the caller decides whether it is one of the choices.

    A field that the server refuses by its name, twice and not without it, is left out from then on
    (openai_left_out.py).

    Args:
        model: the model's name at the endpoint.
        endpoint: where it is, which variable holds its key, and the limits.
        budget: what may still be spent; without one there is no limit.
        left_out: where the fields that the server does not take are kept for later starts.

    Raises:
        ModelError: the key's variable is not set (a server at `base_url` needs none), or
            `base_url` is no HTTP URL.
    """

    def __init__(
        self,
        model: str,
        endpoint: Endpoint,
        budget: Budget | None = None,
        left_out: Path | None = None,
    ) -> None:
        if endpoint.base_url is not None and urlsplit(endpoint.base_url).scheme not in (
            "http",
            "https",
        ):
            raise ModelError("endpoint.base_url must begin with http:// or https://")
        self._model = model
        self._endpoint = endpoint
        self._key = _api_key(endpoint)
        self._url = endpoint.base_url or ""
        self._left_out = LeftOut(self._where(), left_out)
        self._gave_logprobs = False
        self._any_filtered = False
        self._line: _Line | None = None
        self._budget = budget or Budget()
        self._limiter = ConcurrencyLimiter(endpoint.in_flight)
        self._requests = Rate(endpoint.requests_per_minute)
        self._tokens = Rate(endpoint.tokens_per_minute)

    @property
    def name(self) -> str:
        return self._model

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        """Answer `request`; a sample cut by the server's content filter counts as "length".

        Where the filter refuses the prompt itself, the samples are empty and have a `refusal`.

        The server tells the generated tokens of all samples together; they are shared out evenly.

        Raises:
            ModelError: the server refused, did not answer in `endpoint.retries` further tries, or
                answered with something else than `n` chat completions.
        """
        line = self._current_line()
        # The slot is kept while waiting for the next try: a busy server gets fewer requests.
        async with self._limiter.slot():
            try:
                with self._budget.reserved(request):
                    samples = await self._samples(line.client, request)
                    used = sum((sample.usage for sample in samples), Usage())
                    self._budget.spent = self._budget.spent + used
            except RetryError as error:
                raise self._error(self._gave_up(error.last_attempt)) from None
            except APIStatusError as error:
                if is_filtered(error):
                    return self._filtered(request, error)
                raise self._error(self._refused(error)) from None
        most = estimated(request)
        self._tokens.correct(most.prompt + most.generated - used.prompt - used.generated)
        return samples

    def _filtered(self, request: ChatRequest, error: APIStatusError) -> tuple[Completion, ...]:
        """No text, and why: what nobody may ask is one item's failure and no end of a run."""
        reason = f"the content filter refused the prompt: {self._what(error)}"
        if not self._any_filtered:
            self._any_filtered = True
            log.warning(
                "%s: %s; such requests count as failures of their items, and the run goes on",
                *(self._where(), reason),
            )
        none = Completion(
            text="",
            finish_reason="length",
            usage=Usage(),
            model=self._model,
            revision=self._model,
            refusal=reason,
        )
        return (none,) * request.n

    async def close(self) -> None:
        """Close the connections; a later request opens new ones."""
        line, self._line = self._line, None
        if line is not None and line.loop is asyncio.get_running_loop():
            await line.client.close()

    def _current_line(self) -> _Line:
        """Sockets cannot move between event loops, so each `asyncio.run` gets its own."""
        loop = asyncio.get_running_loop()
        if self._line is None or self._line.loop is not loop:
            client = AsyncOpenAI(
                api_key=self._key,
                base_url=self._endpoint.base_url,
                timeout=self._endpoint.timeout_s,
                max_retries=0,
                # The package's own would, once dropped, close its sockets in the wrong loop.
                # A prompt goes to the host that the plan names and to no other.
                http_client=DefaultAsyncHttpxClient(follow_redirects=False),
            )
            self._url = str(client.base_url)
            self._line = _Line(loop, client)
        return self._line

    async def _samples(self, client: AsyncOpenAI, request: ChatRequest) -> tuple[Completion, ...]:
        """All samples: in one reply, or one by one from a server that knows no `n`."""
        samples = self._completions(await self._reply(client, request), request)
        if len(samples) < request.n:
            self._left_out.add({"n": f"{len(samples)} of {request.n} samples came back"})
        while len(samples) < request.n:
            one = replace(request, n=1, seed=request.seed + len(samples))
            samples += self._completions(await self._reply(client, one), one)
        return samples

    async def _reply(self, client: AsyncOpenAI, request: ChatRequest) -> Any:
        """The reply, without the fields that the server does not take.

        A refusal counts as one of a field once the same request was refused for it again and was
        taken without it: one that passes, or has another reason, changes nothing.
        """
        most = estimated(request)
        refused: dict[str, str] = {}
        suspected: str | None = None
        while True:
            left_out = self._left_out.names | refused.keys()
            body = body_of(request, self._model, self._endpoint.base_url is not None, left_out)
            try:
                reply = await self._send(client, body, most.prompt + most.generated)
            except APIStatusError as error:
                field = None if is_filtered(error) else refused_field(error, body)
                if field is None or (field.startswith("max_") and _has_limit(left_out)):
                    raise
                if field == suspected:
                    refused[field] = self._what(error)
                suspected = field
                continue
            self._left_out.add(refused, self._after_others(refused))
            self._gave_logprobs = self._gave_logprobs or "logprobs" in body
            return reply

    def _after_others(self, refused: Collection[str]) -> str:
        if "logprobs" not in refused or not self._gave_logprobs:
            return ""
        return "; it took them before, so that this run's labels are of two kinds"

    async def _send(self, client: AsyncOpenAI, body: dict[str, Any], tokens: int) -> Any:
        retrying = AsyncRetrying(
            stop=stop_after_attempt(1 + self._endpoint.retries),
            wait=wait_s,
            retry=retry_if_exception(
                lambda error: worth_another_try(error) and refused_field(error, body) is None
            ),
        )
        return await retrying(self._try_once, client, body, tokens)

    async def _try_once(self, client: AsyncOpenAI, body: dict[str, Any], tokens: int) -> Any:
        await self._requests.take(1)
        await self._tokens.take(tokens)
        began = self._limiter.now()
        try:
            # The client's own timeout starts anew with every piece received; this is for the whole.
            async with asyncio.timeout(self._endpoint.timeout_s):
                reply = await client.post("/chat/completions", cast_to=ChatCompletion, body=body)
        except json.JSONDecodeError:
            return None  # like any other reply that is no chat completion, it is refused below
        except Exception as error:
            if worth_another_try(error):
                self._limiter.refused(began)
                self._tokens.correct(tokens)
            raise
        self._limiter.answered(self._limiter.now() - began)
        return reply

    def _completions(self, reply: Any, request: ChatRequest) -> tuple[Completion, ...]:
        if not is_chat_completion(reply):
            raise self._error(
                f"{self._where()} answered with something that is no chat completion: check that "
                "endpoint.base_url is an OpenAI-compatible API (it often ends in /v1)"
            )
        if len(reply.choices) > request.n:
            raise self._error(
                f"{self._where()} returned {len(reply.choices)} samples where {request.n} were "
                "requested: this is no OpenAI-compatible server; name another one"
            )
        return completions_of(reply, request, self._model)

    def _gave_up(self, last: Future) -> str:
        tries = last.attempt_number
        return (
            f"{self._where()} gave no answer in {tries} {'try' if tries == 1 else 'tries'}; the "
            f"last one: {self._what(last.exception())}; run the same command again later, or raise "
            "endpoint.retries or endpoint.timeout_s"
        )

    def _refused(self, error: APIStatusError) -> str:
        advice = _ADVICE.get(error.status_code, "no retry can help")
        asked_s = retry_after_s(error)
        if error.response.is_redirect:
            other = error.response.headers.get("location", "nowhere")
            advice = (
                f"it sends requests on to {other}, where none is sent: set endpoint.base_url to "
                "that address if it is to be trusted"
            )
        elif error.status_code == 401:
            advice = f"check the key in the environment variable {self._endpoint.api_key_env}"
        elif asked_s is not None and is_passing(error.status_code):
            advice = f"it asks for a wait of {asked_s:.0f} s: run the same command again after that"
        return f"{self._where()} refused: {self._what(error)}; {advice}"

    def _what(self, error: BaseException | None) -> str:
        if isinstance(error, APIStatusError):
            # Cut only once the key is gone: a part of it would no longer match.
            reason = self._without_key(reason_of(error))[:MOST_REASON]
            return f"status {error.status_code}" + (f" ({reason})" if reason else "")
        if isinstance(error, TimeoutError | APITimeoutError):
            return f"timeout after {self._endpoint.timeout_s:g} s (endpoint.timeout_s)"
        cause = (error and error.__cause__) or error
        return f"no connection ({type(cause).__name__}: {cause})"

    def _where(self) -> str:
        parts = urlsplit(self._url)
        shown = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()
        return f"model {self._model} at {shown}"

    def _error(self, text: str) -> ModelError:
        return ModelError(self._without_key(text))

    def _without_key(self, text: str) -> str:
        """A server may repeat the key in what it says; it must not reach a log."""
        return text if self._key == NO_KEY else text.replace(self._key, "[key]")


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


def _has_limit(left_out: Collection[str]) -> bool:
    """Whether the limit's other name was refused: without any limit nothing is sent."""
    return any(name.startswith("max_") for name in left_out)
