"""Per-key limits: a bucket of requests and one of tokens, refilled evenly over a minute."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from serve.keys import Key

# What was spent beyond the limit is waited off, but no longer than this.
MOST_DEBT_MINUTES = 10


@dataclass
class Bucket:
    """Holds up to one minute's worth. It may be overdrawn; then it says how long to wait."""

    per_minute: float
    level: float
    seen: float
    reserved: float = 0.0

    def wait_s(self, now: float) -> float:
        """Seconds until something is left to take, 0 if there is now."""
        self.level = min(self.per_minute, self.level + (now - self.seen) * self.per_minute / 60)
        self.seen = now
        # What is reserved may come back at any time, so it is not waited off like a debt.
        if self.level >= 1 and self.level - self.reserved < 1:
            return 1.0
        return 0.0 if self.level >= 1 else (1 - self.level) * 60 / self.per_minute

    def reserve(self, amount: float) -> None:
        """Keep so much for a request under way."""
        self.reserved += amount

    def take(self, amount: float) -> None:
        """Take so much; less than nothing puts it back."""
        self.level = max(self.level - amount, -MOST_DEBT_MINUTES * self.per_minute)


class Allowances:
    """What each key may still use in this API replica.

    Tokens are known only after the answer. What a request may come to is reserved before it, so
    that many at once do not pass together, and settled after it; an overdrawn bucket turns the next
    requests away until it is refilled.

    Args:
        share: the part of every limit that this replica grants, 1 / number of replicas.
    """

    def __init__(self, share: float = 1.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._share = share
        self._clock = clock
        self._buckets: dict[tuple[str, str, float], Bucket] = {}

    def admit(self, key: Key) -> float:
        """Count a request; or, if the key has nothing left, the seconds until it has."""
        buckets = [self._bucket(key, "requests"), self._bucket(key, "tokens")]
        waits = [bucket.wait_s(self._clock()) for bucket in buckets if bucket is not None]
        wait_s = max(waits, default=0.0)
        if wait_s == 0 and buckets[0] is not None:
            buckets[0].take(1)
        return wait_s

    def reserve(self, key: Key, tokens: int) -> float:
        """Take what a request may come to; or the seconds until its key has anything left."""
        bucket = self._bucket(key, "tokens")
        if bucket is None:
            return 0.0
        wait_s = bucket.wait_s(self._clock())
        if wait_s == 0:
            bucket.reserve(tokens)
        return wait_s

    def settle(self, key: Key, used: int, reserved: int = 0) -> None:
        """Give back what was reserved, and take what was used."""
        bucket = self._bucket(key, "tokens")
        if bucket is not None:
            bucket.reserved -= reserved
            bucket.take(used)

    def _bucket(self, key: Key, kind: str) -> Bucket | None:
        limit = key.requests_per_minute if kind == "requests" else key.tokens_per_minute
        if limit is None:
            return None
        # At least one request must fit, however many replicas share the limit.
        granted = max(1.0, limit * self._share)
        place = (key.sha256, kind, granted)
        if place not in self._buckets:
            self._buckets[place] = Bucket(granted, granted, self._clock())
        return self._buckets[place]
