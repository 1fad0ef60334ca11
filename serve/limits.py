"""Per-key limits: a bucket of requests and one of tokens, refilled evenly over a minute."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from rldf_ray.apps.serve.keys import Key
from rldf_ray.errors import UserError
from rldf_ray.models.bucket import Bucket

# What was spent beyond the limit is waited off, but no longer than this.
MOST_DEBT_MINUTES = 10
# A reservation that is not settled by then was of an API replica that has died.
RESERVED_S = 3600.0


class LimitsGoneError(UserError):
    """What a key may still use is not known at the moment."""


class Limits(Protocol):
    """What each key may still use, wherever it is counted.

    Tokens are known only after the answer. What a request may come to is reserved before it, so
    that many at once do not pass together, and settled after it; an overdrawn bucket turns the next
    requests away until it is refilled.
    """

    async def admit(self, key: Key) -> float:
        """Count a request; or, if the key has nothing left, the seconds until it has.

        Raises:
            LimitsGoneError: it is not known.
        """
        ...

    async def reserve(self, key: Key, tokens: int) -> float:
        """Keep what a request may come to; or the seconds until its key has anything left.

        Raises:
            LimitsGoneError: it is not known.
        """
        ...

    async def settle(self, key: Key, used: int, reserved: int = 0) -> None:
        """Give back what was reserved, and take what was used."""
        ...


@dataclass
class _Account:
    """A bucket and what is reserved of it, each with the time until which it is."""

    bucket: Bucket
    reserved: list[tuple[float, float]] = field(default_factory=list)

    def wait_s(self, now: float) -> float:
        """Seconds until something is left to take, 0 if there is now."""
        wait_s = self.bucket.wait_s(1)
        self.reserved = [(until, amount) for until, amount in self.reserved if until > now]
        kept = sum(amount for _, amount in self.reserved)
        # What is reserved may come back at any time, so it is not waited off like a debt.
        return 1.0 if wait_s == 0 and self.bucket.held - kept < 1 else wait_s

    def give_back(self, amount: float) -> None:
        found = (i for i, (_, reserved) in enumerate(self.reserved) if reserved == amount)
        if (i := next(found, None)) is not None:
            del self.reserved[i]


class Allowances:
    """Limits counted in this process: an API replica's own, or a deployment's for several."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._accounts: dict[tuple[str, str, float], _Account] = {}

    async def admit(self, key: Key) -> float:
        accounts = [self._account(key, "requests"), self._account(key, "tokens")]
        waits = [account.wait_s(self._clock()) for account in accounts if account is not None]
        wait_s = max(waits, default=0.0)
        if wait_s == 0 and accounts[0] is not None:
            accounts[0].bucket.take(1)
        return wait_s

    async def reserve(self, key: Key, tokens: int) -> float:
        account = self._account(key, "tokens")
        if account is None:
            return 0.0
        now = self._clock()
        wait_s = account.wait_s(now)
        if wait_s == 0:
            account.reserved.append((now + RESERVED_S, tokens))
        return wait_s

    async def settle(self, key: Key, used: int, reserved: int = 0) -> None:
        account = self._account(key, "tokens")
        if account is not None:
            account.give_back(reserved)
            account.bucket.take(used)

    def _account(self, key: Key, kind: str) -> _Account | None:
        limit = key.requests_per_minute if kind == "requests" else key.tokens_per_minute
        if limit is None:
            return None
        place = (key.sha256, kind, limit)
        if place not in self._accounts:
            # One request must fit, however seldom it may come.
            bucket = Bucket(
                per_minute=limit,
                most=max(1.0, limit),
                least=-MOST_DEBT_MINUTES * limit,
                clock=self._clock,
            )
            self._accounts[place] = _Account(bucket)
        return self._accounts[place]
