"""Which fields of requests a server does not take, from what it refuses and takes.

A refusal may pass, or have another reason, so none is believed at once. One that names the field
counts if the same request was refused for it again and was taken without it. One that names nothing
(a bare 400, 404 or 500) counts against guided decoding or log-probabilities if the server never
took them before, the request was refused again, was taken without them, and was refused once more
with them: a server that is down for a moment looks the same for three tries. Where a server says
when it can answer again (Retry-After), a refusal that names nothing is none of a field.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator
from functools import partial
from typing import Any, Protocol

from openai import APIStatusError

from rldf_ray.models.openai_checked import Reply
from rldf_ray.models.openai_left_out import LeftOut
from rldf_ray.models.openai_refusal import is_about_fields, is_filtered, refused_field
from rldf_ray.models.openai_retry import LONGEST_RETRY_AFTER_S, jitter_s, requested_wait_s

_OFTEN_UNKNOWN = ("structured_outputs", "response_format", "logprobs")
"""What servers of other kinds know nothing of, in the order in which they are tried without."""

BodyWithout = Callable[[Collection[str]], dict[str, Any]]


class Send(Protocol):
    """One request with its tries; `is_final` ends them where another try would say nothing new."""

    def __call__(
        self, body: dict[str, Any], is_final: Callable[[BaseException], bool]
    ) -> Awaitable[Reply]: ...


class Fields:
    """What one model's server takes, as it turns out.

    Args:
        what: what happened, in words, for the reader of the log.
    """

    def __init__(self, left_out: LeftOut, what: Callable[[BaseException], str]) -> None:
        self._left_out = left_out
        self._what = what
        self._taken: set[str] = set()

    async def reply(self, body_without: BodyWithout, send: Send) -> Reply:
        """The reply to a request, without the fields that the server does not take.

        Raises:
            APIStatusError: it is refused for another reason.
        """
        refused: dict[str, str] = {}
        before: set[tuple[str, ...]] = set()
        while True:
            left_out = self._left_out.names | refused.keys()
            body = body_without(left_out)
            try:
                reply = await send(body, partial(self._is_suspicious, body))
            except APIStatusError as error:
                suspects = self._suspects(error, body)
                if not suspects or _is_only_limit(suspects, left_out):
                    raise
                await _sit_out(error)
                if suspects in before and refused_field(error, body):
                    refused |= dict.fromkeys(suspects, self._what(error))
                elif suspects in before:
                    return await self._narrowed(suspects, left_out, body_without, send)
                before.add(suspects)
                continue
            self._took(body)
            self._left_out.add(refused, self._after_others(refused))
            return reply

    async def _narrowed(
        self, suspects: Collection[str], left_out: Collection[str], body_without: BodyWithout,
        send: Send,
    ) -> Reply:  # fmt: skip
        """The reply without the first suspects that matter; all tries with them if none does."""
        whole = body_without(left_out)
        for tried in _alone_and_together(suspects):
            body = body_without({*left_out, *tried})
            try:
                reply = await send(body, _may_be_about_fields)
            except APIStatusError as error:
                if not _may_be_about_fields(error):
                    raise
                continue
            self._took(body)
            try:
                with_them = await send(whole, _may_be_about_fields)
            except APIStatusError as error:
                if not _may_be_about_fields(error):
                    raise
                why = f"{self._what(error)}, and without it none"
                self._left_out.add(dict.fromkeys(tried, why))
                return reply
            self._took(whole)
            return with_them
        return await send(whole, lambda error: refused_field(error, whole) is not None)

    def _is_suspicious(self, body: Collection[str], error: BaseException) -> bool:
        return bool(self._suspects(error, body))

    def _suspects(self, error: BaseException, body: Collection[str]) -> tuple[str, ...]:
        """The field that a refusal names, or those that may be behind one that names none."""
        if not isinstance(error, APIStatusError) or is_filtered(error):
            return ()
        named = refused_field(error, body)
        if named is not None:
            return (named,) if requested_wait_s(error) <= LONGEST_RETRY_AFTER_S else ()
        if not _may_be_about_fields(error):
            return ()
        return tuple(name for name in _OFTEN_UNKNOWN if name in body and name not in self._taken)

    def _took(self, body: Collection[str]) -> None:
        self._taken.update(body)

    def _after_others(self, refused: Collection[str]) -> str:
        if "logprobs" not in refused or "logprobs" not in self._taken:
            return ""
        return "; it took them before, so that this run's labels are of two kinds"


def _may_be_about_fields(error: BaseException) -> bool:
    """Whether it can be about fields that it does not name: one that will pass is not."""
    return is_about_fields(error) and not requested_wait_s(error)


async def _sit_out(error: BaseException) -> None:
    asked_s = requested_wait_s(error)
    if asked_s:
        await asyncio.sleep(asked_s + jitter_s())


def _is_only_limit(suspects: Collection[str], left_out: Collection[str]) -> bool:
    """Whether the limit's other name was refused before: without any limit nothing is sent."""
    return any(name.startswith("max_") for name in suspects) and any(
        name.startswith("max_") for name in left_out
    )


def _alone_and_together(suspects: Collection[str]) -> Iterator[tuple[str, ...]]:
    for name in suspects:
        yield (name,)
    if len(suspects) > 1:
        yield tuple(suspects)
