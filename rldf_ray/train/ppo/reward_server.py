"""A reward that a server computes: asked with retries, within a budget, once for each answer."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
from tenacity import (
    RetryError,
    Retrying,
    retry_if_exception,
    stop_after_attempt,
    wait_random_exponential,
)

from rldf_ray.models.base import BudgetSpentError
from rldf_ray.plan.training import RewardSource
from rldf_ray.storage.digest import digest
from rldf_ray.storage.journal import Journal
from rldf_ray.train.ppo.reward_functions import RewardError, Row, checked

log = logging.getLogger(__name__)

PASSING = (408, 425, 429, 500, 502, 503, 504)
LONGEST_WAIT_S = 60.0


POST = "post/"
"""How the address of a request that was sent begins in the journal; those of answers are hashes."""


class RewardServer:
    """Rows -> rewards, by `POST {"rows": [...]}` -> `{"rewards": [...]}`; redirects are refused.

    Args:
        journal: answers are kept in it, so that a resumed run asks for none again, and every
            request is noted before it is sent, so that one counts those of all before it.
        most: requests that may be sent in all; None is no limit.
    """

    def __init__(self, source: RewardSource, journal: Path, most: int | None) -> None:
        self._source, self._journal, self._most = source, Journal(journal), most
        sent = [entry["address"].startswith(POST) for entry in self._journal.entries()]
        # An answer took one request at least, whether or not it was noted.
        self._calls = max(sum(sent), len(sent) - sum(sent))

    def __call__(self, rows: Sequence[Row]) -> Sequence[Any]:
        """
        Raises:
            RewardError: the server gave no answer, or another than it should.
            BudgetSpentError: all requests that may be sent have been.
        """
        address = digest(self._source.http, rows)
        kept = self._journal.get(address)
        if kept is not None:
            known: list[Any] = kept["rewards"]
            return known
        rewards = checked(self._source.name, self._rewards(rows), rows)
        self._journal.append(address, {"rewards": rewards})
        return rewards

    def _rewards(self, rows: Sequence[Row]) -> list[Any]:
        source = self._source
        tries = Retrying(
            stop=stop_after_attempt(source.retries + 1),
            wait=wait_random_exponential(max=LONGEST_WAIT_S),
            retry=retry_if_exception(_is_passing),
        )
        try:
            reply = tries(self._post, rows)
        except RetryError as error:
            last = error.last_attempt.exception()
            raise RewardError(
                f"reward {source.name} ({source.http}) gave no answer in {source.retries + 1} "
                f"tries; the last one: {type(last).__name__}: {last}; run the same command again "
                "later, or raise `retries` or `timeout_s`"
            ) from None
        except httpx.HTTPError as error:
            raise RewardError(f"reward {source.name} ({source.http}): {error}") from error
        rewards = reply.get("rewards") if isinstance(reply, dict) else None
        if not isinstance(rewards, list):
            raise RewardError(
                f"reward {source.name} ({source.http}) answered {str(reply)[:200]}; allowed: "
                '{"rewards": [...]}, a number for each of the rows'
            )
        return rewards

    def _post(self, rows: Sequence[Row]) -> Any:
        if self._most is not None and self._calls >= self._most:
            raise BudgetSpentError(
                f"reward {self._source.name}: max_calls={self._source.max_calls} are made, of "
                f"which this worker had {self._most}; begin another run with more of them"
            )
        self._calls += 1
        self._journal.append(f"{POST}{self._calls}", {})
        reply = httpx.post(
            self._source.http or "", json={"rows": list(rows)}, timeout=self._source.timeout_s
        )
        reply.raise_for_status()
        try:
            return reply.json()
        except ValueError:
            return reply.text


def _is_passing(error: BaseException) -> bool:
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code in PASSING
    return isinstance(error, httpx.TransportError)
