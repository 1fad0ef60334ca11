"""How many requests an endpoint has at once."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

FIRST_LIMIT = 4.0
# An endpoint that answers this much slower than it did at its best has a queue of its own.
SLOWER = 2.0


class ConcurrencyLimiter:
    """How many requests an endpoint bears at once: additive increase, halving on refusal.

    Every answer makes room for a fraction of one more, as long as the room is used and answers
    come about as fast as they did at best; a refusal or a timeout halves it, once for all the
    requests that were under way together.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = float(most)
        self._room = min(FIRST_LIMIT, self._most)
        self._under_way = 0
        self._queue: deque[asyncio.Future[None]] = deque()
        self._clock = clock
        self._halved_at = -math.inf
        self._latency_s: float | None = None
        self._best_s = math.inf

    @property
    def room(self) -> int:
        return int(self._room)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """One of them; waits for its turn."""
        if self._under_way >= self.room or self._queue:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._queue.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._under_way -= 1
                    self._wake()
                raise
        else:
            self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            self._wake()

    def answered(self, seconds: float) -> None:
        """A request was answered after `seconds`."""
        before = seconds if self._latency_s is None else self._latency_s
        self._latency_s = 0.8 * before + 0.2 * seconds
        self._best_s = min(self._best_s, self._latency_s)
        if self._latency_s <= SLOWER * self._best_s and self._under_way >= self.room:
            self._room = min(self._most, self._room + 1 / self._room)

    def refused(self, began: float) -> None:
        """A request that began at `began` was turned away for now, or got no answer in time."""
        if began >= self._halved_at:
            self._room = max(1.0, self._room / 2)
            self._halved_at = self._clock()

    def now(self) -> float:
        return self._clock()

    def _wake(self) -> None:
        while self._queue and self._under_way < self.room:
            turn = self._queue.popleft()
            if not turn.done():
                self._under_way += 1
                turn.set_result(None)
