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


def worth_another_try(error: BaseException) -> bool:
    """Whether the same request may succeed later.

    It may after 408, 429, 5xx, timeouts, no connection, and a reply that is no answer; not where
    the account has no credit left.
    """
    if isinstance(error, APIStatusError):
        if is_out_of_credit(error):
            return False
        asked_s = retry_after_s(error) or 0.0
        return is_passing(error.status_code) and asked_s <= LONGEST_RETRY_AFTER_S
    return isinstance(error, APIConnectionError | TimeoutError | MalformedReplyError)


def is_passing(status: int) -> bool:
    """Whether a status says "not now" rather than "no"."""
    return status in (408, 429) or status >= 500


def wait_s(state: RetryCallState) -> float:
    """Exponential back-off with jitter, never before the server's Retry-After."""
    error = state.outcome.exception() if state.outcome is not None else None
    asked = retry_after_s(error)
    if asked:
        # Requests that were turned away together must not come back together.
        return asked + random.uniform(0, FIRST_WAIT_S)
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
