"""OpenAI-compatible endpoints behind the one `ChatModel` interface.

complete --> ConcurrencyLimiter --> tries with back-off --> the budget --> the rate limit --> HTTP

What is sent: openai_request.py, without what openai_fields.py knows the server not to take. When:
openai_tries.py. What comes back: openai_checked.py, then openai_reply.py.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from openai import APIStatusError
from tenacity import AsyncRetrying, RetryError, retry_if_exception, stop_after_attempt

from rldf_ray.models.base import ChatRequest, Completion, ModelError, PromptTooLongError, Usage
from rldf_ray.models.limits import Budget
from rldf_ray.models.openai_checked import ForeignReplyError, Reply
from rldf_ray.models.openai_connection import Connection
from rldf_ray.models.openai_failure import Failures
from rldf_ray.models.openai_fields import Fields
from rldf_ray.models.openai_left_out import LeftOut
from rldf_ray.models.openai_refusal import is_filtered, is_too_long
from rldf_ray.models.openai_reply import answer_text, completions_of
from rldf_ray.models.openai_request import body_of
from rldf_ray.models.openai_retry import wait_s, worth_another_try
from rldf_ray.models.openai_tries import Call, Tries
from rldf_ray.models.thinking import ends_alone
from rldf_ray.plan import Endpoint

THINKING_TOKENS = 4096
"""What a choice may take besides, where the model thinks before it chooses."""

log = logging.getLogger(__name__)


class OpenAIModel:
    """A model at an OpenAI-compatible endpoint.

    429, 5xx, timeouts, dropped connections and replies that are no answer are tried again
    `endpoint.retries` times, after exponential back-off with jitter and never before the server's
    Retry-After; any other refusal, or a Retry-After of more than `LONGEST_RETRY_AFTER_S`, is final.
    An error in a reply of status 200 counts as the status that it names.

    Guided decoding of `choices` is asked of servers named by `endpoint.base_url` (vLLM's
    `structured_outputs`); elsewhere they are a plain request. The text comes back as the server
    sent it, and the caller decides whether it is one of the choices.

    A field that the server does not take is left out from then on (openai_fields.py). A choice has
    few tokens; where they end inside a thought, it is requested again with `THINKING_TOKENS` more,
    and all later ones have as many at once.

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
        self._model = model
        self._endpoint = endpoint
        self._connection = Connection(endpoint)
        self._failures = Failures(model, endpoint, self._connection)
        self._left_out = LeftOut(self._failures.where, left_out)
        self._fields = Fields(self._left_out, self._failures.what)
        self._warned: set[str] = set()
        self._thinks_first = False
        self._tries = Tries(model, endpoint, self._connection, budget or Budget())

    @property
    def name(self) -> str:
        return self._model

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        """Answer `request`; a sample cut by the server's content filter counts as "length".

        Where the filter refuses the prompt itself, or leaves nothing of the answer, the samples are
        empty and have a `refusal`.

        Raises:
            ModelError: the server refused, did not answer in `endpoint.retries` further tries, or
                answered with something else than `n` chat completions.
        """
        async with self._tries.call() as call:
            try:
                call.samples = await self._samples(request, call)
            except RetryError as error:
                raise ModelError(self._failures.gave_up(error.last_attempt)) from None
            except ForeignReplyError as error:
                raise ModelError(self._failures.foreign(error)) from None
            except APIStatusError as error:
                if not is_filtered(error):
                    kind = PromptTooLongError if is_too_long(error) else ModelError
                    raise kind(self._failures.refused(error)) from None
                call.samples = self._filtered(request, error)
        if call.taken.by_characters:
            self._warn_once(
                "%s reports no tokens: they are counted by the characters of the texts (about four "
                "a token), so that budget and cost are estimates",
                *(self._failures.where,),
            )
        for sample in call.samples:
            if sample.refusal is not None:
                self._warn_once(
                    "%s: %s; such requests count as failures of their items, and the run goes on",
                    *(self._failures.where, sample.refusal),
                )
        return call.samples

    def send_no_more(self) -> None:
        """Let what was sent be answered; all else fails at once, until this event loop ends."""
        self._tries.send_no_more()

    async def close(self) -> None:
        """Close the connections; a later request opens new ones."""
        await self._connection.close()

    def _filtered(self, request: ChatRequest, error: APIStatusError) -> tuple[Completion, ...]:
        """No text, and why: what nobody may ask is one item's failure and no end of a run."""
        none = Completion(
            text="",
            finish_reason="length",
            usage=Usage(),
            model=self._model,
            revision=self._model,
            refusal=f"the content filter refused the prompt: {self._failures.what(error)}",
        )
        return (none,) * request.n

    async def _samples(self, request: ChatRequest, call: Call) -> tuple[Completion, ...]:
        """All samples: in one reply, or one by one from a server that knows no `n`."""
        samples = await self._whole_samples(request, call)
        if len(samples) < request.n:
            self._left_out.add({"n": f"{len(samples)} of {request.n} samples came back"})
        while len(samples) < request.n:
            one = replace(request, n=1, seed=request.seed + len(samples))
            samples += await self._whole_samples(one, call)
        return samples

    async def _whole_samples(self, request: ChatRequest, call: Call) -> tuple[Completion, ...]:
        """Samples of one reply, of which none is a choice that was cut off inside a thought."""
        if request.choices is None:
            return await self._some_samples(request, call)
        # What counts is what was sent: calls under way together are all cut off, not the first.
        if not self._thinks_first:
            samples = await self._some_samples(request, call)
            if not any(map(_is_cut_off, samples)):
                return samples
            self._thinks_first = True
            self._warn_once(
                "%s thinks before it chooses: choices may take %d tokens more",
                *(self._failures.where, THINKING_TOKENS),
            )
        return await self._some_samples(_with_room(request), call)

    async def _some_samples(self, request: ChatRequest, call: Call) -> tuple[Completion, ...]:
        def body_without(left_out: Collection[str]) -> dict[str, Any]:
            body = body_of(request, self._model, self._endpoint.base_url is not None, left_out)
            fields = self._endpoint.request_fields().items()
            return body | {name: value for name, value in fields if name not in left_out}

        async def send(body: dict[str, Any], is_final: Callable[[BaseException], bool]) -> Reply:
            retrying = AsyncRetrying(
                stop=stop_after_attempt(1 + self._endpoint.retries),
                wait=wait_s,
                retry=retry_if_exception(lambda e: worth_another_try(e) and not is_final(e)),
            )
            reply: Reply = await retrying(self._tries.once, request, body, call)
            return reply

        reply = await self._fields.reply(body_without, send)
        if len(reply.choices) > request.n:
            raise ModelError(self._failures.too_many(len(reply.choices), request.n))
        if any(ends_alone(answer_text(choice.message)) for choice in reply.choices):
            self._warn_once(
                "%s begins its answers inside a thought: one that is cut off there cannot be told "
                "from a whole answer; start the server with its reasoning parser",
                *(self._failures.where,),
            )
        return completions_of(reply, request, self._model)

    def _warn_once(self, line: str, *values: object) -> None:
        if line not in self._warned:
            self._warned.add(line)
            log.warning(line, *values)


def _is_cut_off(sample: Completion) -> bool:
    """Whether nothing but a thought fitted into the limit, be it shown or not."""
    return sample.finish_reason == "length" and not sample.text.strip() and sample.refusal is None


def _with_room(request: ChatRequest) -> ChatRequest:
    return replace(request, max_tokens=request.max_tokens + THINKING_TOKENS)
