"""Which failures of an endpoint pass, and how long to wait before the next try."""

from __future__ import annotations

import math
import random
import time
from email.utils import parsedate_to_datetime

from openai import APIConnectionError, APIStatusError
from tenacity import RetryCallState, wait_random_exponential

from rldf_ray.models.openai_checked import MalformedReplyError
from rldf_ray.models.openai_refusal import is_out_of_credit

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0
LONGEST_RETRY_AFTER_S = 300.0
# Of whichever HTTP package the openai package chooses.
_NO_CONNECTION = ("ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError")


def worth_another_try(error: BaseException) -> bool:
    """Whether the same request may succeed later.

    It may after 408, 429, 5xx, timeouts, no connection, and a reply that is no answer; not where
    the account has no credit left.
    """
    if isinstance(error, APIStatusError):
        passes = is_passing(error.status_code) and not is_out_of_credit(error)
        return passes and requested_wait_s(error) <= LONGEST_RETRY_AFTER_S
    return isinstance(error, APIConnectionError | TimeoutError | MalformedReplyError)


def is_passing(status: int) -> bool:
    """Whether a status says "not now" rather than "no"."""
    return status in (408, 429) or status >= 500


def was_never_sent(error: BaseException) -> bool:
    """Whether there was no connection to send the request over."""
    cause = error.__cause__
    return isinstance(error, APIConnectionError) and type(cause).__name__ in _NO_CONNECTION


def requested_wait_s(error: BaseException) -> float:
    """How long a server that cannot answer now wants to be left alone; 0 if it does not say."""
    if not isinstance(error, APIStatusError) or not is_passing(error.status_code):
        return 0.0
    return retry_after_s(error) or 0.0


def jitter_s() -> float:
    """Requests that were turned away together must not come back together."""
    return random.uniform(0, FIRST_WAIT_S)


def wait_s(state: RetryCallState) -> float:
    """Exponential back-off with jitter, never before the server's Retry-After."""
    error = state.outcome.exception() if state.outcome is not None else None
    asked = retry_after_s(error)
    if asked:
        return asked + jitter_s()
    return wait_random_exponential(
        multiplier=2 * FIRST_WAIT_S, max=LONGEST_WAIT_S, min=FIRST_WAIT_S
    )(state)


def retry_after_s(error: BaseException | None) -> float | None:
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
