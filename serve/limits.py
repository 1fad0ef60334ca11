"""Per-key limits: a bucket of requests and one of tokens, refilled evenly over a minute."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from serve.keys import Key


@dataclass
class Bucket:
    """Holds up to one minute's worth. It may be overdrawn; then it says how long to wait."""

    per_minute: float
    level: float
    seen: float

    def wait_s(self, now: float) -> float:
        """Seconds until something is left to take, 0 if there is now."""
        self.level = min(self.per_minute, self.level + (now - self.seen) * self.per_minute / 60)
        self.seen = now
        return 0.0 if self.level >= 1 else (1 - self.level) * 60 / self.per_minute

    def take(self, amount: float) -> None:
        self.level -= amount


class Allowances:
    """What each key may still use in this API replica.

    Tokens are known only after the answer, so they are taken then, and an overdrawn bucket turns
    the next requests away until it is refilled.

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

    def spend(self, key: Key, tokens: int) -> None:
        """Count the tokens of an answer."""
        bucket = self._bucket(key, "tokens")
        if bucket is not None:
            bucket.take(tokens)

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
