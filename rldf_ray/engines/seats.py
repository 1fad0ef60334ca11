"""Which engine a request goes to: a bounded number at each, a queue before them, affinity kept."""

from __future__ import annotations

import asyncio
import zlib
from collections import deque


class Seats:
    """`each` seats at every one of `engines` engines, whose number may grow.

    A request takes a seat at its home, which its affinity names; where the home is full (or
    closed) it spills to the engine with the fewest requests; where all are full it waits. A seat
    that is given back goes to the first in the home's own queue, else in the longest queue.
    """

    def __init__(self, engines: int, each: int) -> None:
        self._each = each
        self._taken: list[int] = []
        self._open: list[bool] = []
        self._queues: list[deque[asyncio.Future[int]]] = []
        for _ in range(engines):
            self.grow()

    @property
    def engines(self) -> int:
        """How many there are, closed ones included."""
        return len(self._taken)

    @property
    def taken(self) -> tuple[int, ...]:
        """Requests at each engine."""
        return tuple(self._taken)

    @property
    def waiting(self) -> int:
        """Requests that wait for a seat anywhere."""
        return sum(not seat.done() for queue in self._queues for seat in queue)

    @property
    def another_would_fill(self) -> bool:
        """Whether as many requests wait as one more engine has seats."""
        return self.waiting >= self._each

    def home(self, affinity: str) -> int:
        """Where requests of `affinity` go while there is room."""
        return consistent_hash(zlib.crc32(affinity.encode()), self.engines)

    async def take(self, affinity: str) -> int:
        """The engine at which the caller now has a seat; to be given back with `leave`."""
        home = self.home(affinity)
        engine = home if self._has_room(home) else self._emptiest()
        if engine is not None:
            self._taken[engine] += 1
            return engine
        seat: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._queues[home].append(seat)
        try:
            return await seat
        except asyncio.CancelledError:
            if seat.done() and not seat.cancelled():
                self.leave(seat.result())  # it was given up in the moment it was handed over
            raise

    def leave(self, engine: int) -> None:
        self._taken[engine] -= 1
        self._fill(engine)

    def close(self, engine: int) -> None:
        """Hand out no seat of `engine` until it is opened again."""
        self._open[engine] = False

    def open(self, engine: int) -> None:
        self._open[engine] = True
        self._fill(engine)

    def grow(self) -> None:
        """One more engine, to which those go that wait."""
        self._taken.append(0)
        self._open.append(True)
        self._queues.append(deque())
        self._fill(self.engines - 1)

    def _has_room(self, engine: int) -> bool:
        return self._open[engine] and self._taken[engine] < self._each

    def _emptiest(self) -> int | None:
        with_room = (i for i in range(len(self._taken)) if self._has_room(i))
        return min(with_room, key=lambda i: self._taken[i], default=None)

    def _fill(self, engine: int) -> None:
        while self._has_room(engine):
            seat = self._next_in_queue(engine)
            if seat is None:
                return
            self._taken[engine] += 1
            seat.set_result(engine)

    def _next_in_queue(self, engine: int) -> asyncio.Future[int] | None:
        own = self._queues[engine]
        for queue in (own, *sorted(self._queues, key=len, reverse=True)):
            while queue:
                seat = queue.popleft()
                if not seat.done():
                    return seat
        return None


def consistent_hash(key: int, buckets: int) -> int:
    """A bucket below `buckets`; another bucket takes its share of the keys and moves no other.

    Jump consistent hashing (Lamping and Veach 2014).
    """
    bucket, following = -1, 0
    while following < buckets:
        bucket = following
        key = (key * 2862933555777941757 + 1) % 2**64
        following = int((bucket + 1) * 2**31 / ((key >> 33) + 1))
    return bucket
