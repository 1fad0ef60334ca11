"""OpenAI-compatible endpoints behind the one `ChatModel` interface.

complete --> a slot (endpoint.in_flight) --> tries with back-off (endpoint.retries) --> HTTP
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from openai import (
    APIConnectionError,
    APIStatusError,
    APITimeoutError,
    AsyncOpenAI,
    BadRequestError,
    DefaultAsyncHttpxClient,
    UnprocessableEntityError,
)
from openai.types.chat import ChatCompletion
from tenacity import (
    AsyncRetrying,
    Future,
    RetryCallState,
    RetryError,
    retry_if_exception,
    stop_after_attempt,
    wait_random_exponential,
)

from rldf_ray.models.base import ChatRequest, Completion, FinishReason, ModelError, Usage
from rldf_ray.plan import Endpoint

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0
LONGEST_RETRY_AFTER_S = 300.0
TOP_LOGPROBS = 20
MOST_MISSED = 0.01
MOST_REASON = 300
NO_KEY = "none"

_ADVICE = {
    400: "the server says the request itself is wrong; no retry can help",
    403: "this key may not use the model: name another model or ask for access to it",
    404: "the server knows no such model or path: check the model's name and endpoint.base_url",
}


@dataclass(frozen=True)
class _Line:
    """What belongs to one event loop: sockets and the slots that limit them."""

    loop: asyncio.AbstractEventLoop
    client: AsyncOpenAI
    slots: asyncio.Semaphore


class OpenAIModel:
    """A model at an OpenAI-compatible endpoint.

    429, 5xx, timeouts and dropped connections are tried again `endpoint.retries` times, after
    exponential back-off with jitter and never before the server's Retry-After; any other refusal,
    or a Retry-After of more than `LONGEST_RETRY_AFTER_S`, is final.

    Guided decoding of `choices` is asked of servers named by `endpoint.base_url` (vLLM's
    `structured_outputs`); elsewhere they are a plain request. The text comes back as the server
    sent it, and the caller decides whether it is one of the choices.

    Args:
        model: the model's name at the endpoint.
        endpoint: where it is, which variable holds its key, and the limits.

    Raises:
        ModelError: the key's variable is not set (a server at `base_url` needs none), or
            `base_url` is no HTTP URL.
    """

    def __init__(self, model: str, endpoint: Endpoint) -> None:
        if endpoint.base_url is not None and urlsplit(endpoint.base_url).scheme not in (
            "http",
            "https",
        ):
            raise ModelError("endpoint.base_url must begin with http:// or https://")
        self._model = model
        self._endpoint = endpoint
        self._key = _api_key(endpoint)
        self._url = endpoint.base_url or ""
        self._logprobs_refused = False
        self._line: _Line | None = None

    @property
    def name(self) -> str:
        return self._model

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        """Answer `request`; a sample cut by the server's content filter counts as "length".

        The server tells the generated tokens of all samples together; they are shared out evenly.

        Raises:
            ModelError: the server refused, did not answer in `endpoint.retries` further tries, or
                answered with something else than `n` chat completions.
        """
        line = self._current_line()
        # The slot is kept while waiting for the next try: a busy server gets fewer requests.
        async with line.slots:
            try:
                reply = await self._reply(line.client, request)
            except RetryError as error:
                raise self._error(self._gave_up(error.last_attempt)) from None
            except APIStatusError as error:
                raise self._error(self._refused(error)) from None
        return self._completions(reply, request)

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
                http_client=DefaultAsyncHttpxClient(),
            )
            self._url = str(client.base_url)
            self._line = _Line(loop, client, asyncio.Semaphore(self._endpoint.in_flight))
        return self._line

    async def _reply(self, client: AsyncOpenAI, request: ChatRequest) -> Any:
        body = self._body(request)
        wanted = _logprob_fields(request)
        if not wanted or self._logprobs_refused:
            return await self._send(client, body)
        try:
            return await self._send(client, {**body, **wanted})
        except (BadRequestError, UnprocessableEntityError):
            reply = await self._send(client, body)
            # Only now is it known that the log-probabilities were what the server refused.
            self._logprobs_refused = True
            return reply

    async def _send(self, client: AsyncOpenAI, body: dict[str, Any]) -> Any:
        retrying = AsyncRetrying(
            stop=stop_after_attempt(1 + self._endpoint.retries),
            wait=_wait_s,
            retry=retry_if_exception(_worth_another_try),
        )
        return await retrying(self._try_once, client, body)

    async def _try_once(self, client: AsyncOpenAI, body: dict[str, Any]) -> Any:
        # The client's own timeout starts anew with every piece received; this one is for the whole.
        async with asyncio.timeout(self._endpoint.timeout_s):
            try:
                return await client.chat.completions.create(**body)
            except json.JSONDecodeError:
                return None  # like any other reply that is no chat completion, it is refused below

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        elsewhere = self._endpoint.base_url is not None
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": m.role, "content": m.content} for m in request.messages],
            # OpenAI's newer models refuse max_tokens; many other servers know nothing else.
            "max_tokens" if elsewhere else "max_completion_tokens": request.max_tokens,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "seed": request.seed,
            "n": request.n,
        }
        if request.json_schema is not None:
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": request.json_schema, "strict": True},
            }
        if request.choices is not None and elsewhere:
            body["extra_body"] = {"structured_outputs": {"choice": list(request.choices)}}
        return body

    def _completions(self, reply: Any, request: ChatRequest) -> tuple[Completion, ...]:
        if not _is_chat_completion(reply):
            raise self._error(
                f"{self._where()} answered with something that is no chat completion: check that "
                "endpoint.base_url is an OpenAI-compatible API (it often ends in /v1)"
            )
        if len(reply.choices) != request.n:
            raise self._error(
                f"{self._where()} returned {len(reply.choices)} samples where {request.n} were "
                "asked for: this server does not support n; name another one"
            )
        usages = _usages(reply, request.n)
        return tuple(
            Completion(
                text=choice.message.content or choice.message.refusal or "",
                finish_reason=_finish_reason(choice.finish_reason),
                usage=usage,
                model=self._model,
                revision=reply.system_fingerprint or reply.model or self._model,
                logprobs=_token_logprobs(choice) if request.logprobs else None,
                choice_probabilities=_choice_probabilities(choice, request),
            )
            for choice, usage in zip(reply.choices, usages, strict=True)
        )

    def _gave_up(self, last: Future) -> str:
        tries = last.attempt_number
        return (
            f"{self._where()} gave no answer in {tries} {'try' if tries == 1 else 'tries'}; the "
            f"last one: {self._what(last.exception())}; run the same command again later, or raise "
            "endpoint.retries or endpoint.timeout_s"
        )

    def _refused(self, error: APIStatusError) -> str:
        advice = _ADVICE.get(error.status_code, "no retry can help")
        wait_s = _retry_after_s(error)
        if error.status_code == 401:
            advice = f"check the key in the environment variable {self._endpoint.api_key_env}"
        elif wait_s is not None and _is_passing(error.status_code):
            advice = f"it asks for a wait of {wait_s:.0f} s: run the same command again after that"
        return f"{self._where()} refused: {self._what(error)}; {advice}"

    def _what(self, error: BaseException | None) -> str:
        if isinstance(error, APIStatusError):
            # Cut only once the key is gone: a part of it would not be found any more.
            reason = self._without_key(_reason(error))[:MOST_REASON]
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


def choice_distribution(
    top: Sequence[tuple[str, float]], choices: Sequence[str]
) -> dict[str, float] | None:
    """Probability of every choice, from the likeliest first tokens of an answer.

    Choices that are a token of `top` (but for spaces) share the probability of those tokens. The
    others get 0, provided that they cannot hold more than 1% together: neither in what `top`
    leaves out nor behind a token that begins one of them ("1" may go on to "10").

    Args:
        top: text and probability of the first token's likeliest values.

    Returns:
        A distribution that sums to 1, or None where `top` cannot tell.
    """
    tokens = [(text.strip(), probability) for text, probability in top]
    found = {
        choice: sum(probability for text, probability in tokens if text == choice)
        for choice in choices
    }
    held = sum(found.values())
    seen = {text for text, _ in tokens}
    missing = [choice for choice in choices if choice not in seen]
    missed = 0.0
    if missing:
        missed = max(0.0, 1 - sum(probability for _, probability in tokens)) + sum(
            probability
            for text, probability in tokens
            if any(choice.startswith(text) for choice in missing)
        )
    if held <= 0 or missed > MOST_MISSED * (held + missed):
        return None
    return {choice: probability / held for choice, probability in found.items()}


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


def _logprob_fields(request: ChatRequest) -> dict[str, Any]:
    if request.choices is not None and request.choice_probabilities:
        return {"logprobs": True, "top_logprobs": TOP_LOGPROBS}
    return {"logprobs": True} if request.logprobs else {}


def _worth_another_try(error: BaseException) -> bool:
    if isinstance(error, APIStatusError):
        wait_s = _retry_after_s(error) or 0.0
        return _is_passing(error.status_code) and wait_s <= LONGEST_RETRY_AFTER_S
    return isinstance(error, APIConnectionError | TimeoutError)


def _is_passing(status: int) -> bool:
    return status in (408, 429) or status >= 500


def _wait_s(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome is not None else None
    asked = _retry_after_s(error)
    if asked:
        # Requests that were turned away together must not come back together.
        return asked + random.uniform(0, FIRST_WAIT_S)
    return wait_random_exponential(
        multiplier=2 * FIRST_WAIT_S, max=LONGEST_WAIT_S, min=FIRST_WAIT_S
    )(state)


def _retry_after_s(error: BaseException | None) -> float | None:
    """The server's Retry-After in seconds from now; None if it gave none that makes sense."""
    if not isinstance(error, APIStatusError):
        return None
    value = error.response.headers.get("retry-after", "")
    try:
        wait_s = float(value)
    except ValueError:
        try:
            wait_s = parsedate_to_datetime(value).timestamp() - time.time()
        except ValueError:
            return None
    return wait_s if math.isfinite(wait_s) and wait_s >= 0 else None


def _reason(error: APIStatusError) -> str:
    # Servers repeat parts of a wrong key when they refuse it.
    if error.status_code == 401:
        return ""
    body = error.body
    said = body.get("message") if isinstance(body, dict) else body
    return " ".join(str(said or "").split())


def _is_chat_completion(reply: Any) -> bool:
    """The package takes any JSON for what was asked; what is missing is None or not there."""
    return (
        isinstance(reply, ChatCompletion)
        and bool(reply.choices)
        and all(getattr(choice, "message", None) is not None for choice in reply.choices)
    )


def _usages(reply: ChatCompletion, n: int) -> list[Usage]:
    usage = reply.usage
    if usage is None:
        return [Usage()] * n
    details = usage.prompt_tokens_details
    cached = (details.cached_tokens or 0) if details is not None else 0
    each, rest = divmod(usage.completion_tokens or 0, n)
    first = Usage(prompt=usage.prompt_tokens or 0, cached=cached)
    return [(first if i == 0 else Usage()) + Usage(generated=each + (i < rest)) for i in range(n)]


def _finish_reason(reason: str | None) -> FinishReason:
    return "stop" if reason == "stop" else "length"


def _positions(choice: Any) -> Sequence[Any]:
    logprobs = choice.logprobs
    return (logprobs.content or ()) if logprobs is not None else ()


def _token_logprobs(choice: Any) -> tuple[float, ...] | None:
    return tuple(position.logprob for position in _positions(choice)) or None


def _choice_probabilities(choice: Any, request: ChatRequest) -> dict[str, float] | None:
    positions = _positions(choice)
    if request.choices is None or not request.choice_probabilities or not positions:
        return None
    top = [(option.token, math.exp(option.logprob)) for option in positions[0].top_logprobs or ()]
    return choice_distribution(top, request.choices)
