"""What a try takes that brings no answer: nothing if it is refused, the most if it is lost."""

from __future__ import annotations

import asyncio

from openai import APIConnectionError, APIStatusError

from rldf_ray.models.base import ChatRequest, Usage
from rldf_ray.models.limits import estimated
from rldf_ray.models.openai_checked import MalformedReplyError, reported
from rldf_ray.models.openai_refusal import ErrorInReplyError
from rldf_ray.models.openai_reply import used_by
from rldf_ray.models.openai_retry import was_never_sent

# The server, or a gateway before it, gave up waiting for an answer that was under way.
_TIMEOUTS = (408, 504, 524)


def spent_without_answer(error: BaseException, request: ChatRequest) -> Usage:
    """The tokens of a try that ended with `error`, as a budget counts them.

    What the reply says where there is one. A server may charge for an answer that nobody waited
    for, and for how much of it is not known: such a try counts as the most that it can take.
    """
    if isinstance(error, MalformedReplyError):
        return used_by(request, error.usage, ())
    if isinstance(error, ErrorInReplyError):
        usage = reported(error.usage)
        if error.texts or (usage and (usage.prompt_tokens or usage.completion_tokens)):
            return used_by(request, usage, error.texts)
    return estimated(request) if _may_be_charged(error) else Usage()


def _may_be_charged(error: BaseException) -> bool:
    if isinstance(error, APIStatusError):
        return error.status_code in _TIMEOUTS
    if isinstance(error, APIConnectionError):
        return not was_never_sent(error)
    return isinstance(error, TimeoutError | asyncio.CancelledError)
