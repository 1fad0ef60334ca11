"""A token bucket: what may pass in a minute, granted evenly."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(kw_only=True)
class Bucket:
    """Fills up all the time, and may owe.

    Attributes:
        per_minute: what flows in.
        most: what it holds at most, and at first; a minute's allowance where none is given.
        least: what it owes at most, below zero.
        held: what may be taken; of the last time that `wait_s` looked.
    """

    per_minute: float
    most: float | None = None
    least: float = -math.inf
    clock: Callable[[], float] = time.monotonic
    held: float = field(init=False)
    _filled_at: float = field(init=False)

    def __post_init__(self) -> None:
        self.most = self.per_minute if self.most is None else self.most
        self.held, self._filled_at = self.most, self.clock()

    def wait_s(self, amount: float) -> float:
        """Seconds until `amount` may be taken, 0 if it may be now."""
        assert self.most is not None
        now = self.clock()
        self.held = min(self.most, self.held + (now - self._filled_at) * self.per_minute / 60)
        self._filled_at = now
        return max(0.0, amount - self.held) * 60 / self.per_minute

    def take(self, amount: float) -> None:
        """Take so much, there or not; less than nothing puts it back."""
        self.held = max(self.held - amount, self.least)
