"""What a stage's time goes to: processes that start, and cores that nobody uses."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, kw_only=True)
class Spent:
    """Of one stage.

    Attributes:
        seconds: wall time.
        start_seconds: the part of it in which the stage did nothing but wait for engines or
            training workers to come up.
        idle_share: of all time that this machine's cores had, what no process used; None where
            the system does not tell.
    """

    seconds: float
    start_seconds: float
    idle_share: float | None


class Clock:
    """Counts from its making, and from each `lap` anew."""

    def __init__(self) -> None:
        self._began, self._used, self._start = time.monotonic(), _core_seconds(), 0.0

    @contextmanager
    def starting(self) -> Iterator[None]:
        """The block waits for a process to come up, and does nothing else."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.add_start(time.monotonic() - began)

    def add_start(self, seconds: float) -> None:
        """Count a wait that another machine's clock measured, which may be ahead of this one's."""
        self._start += max(0.0, seconds)

    def lap(self) -> Spent:
        """Since the last lap; the next begins."""
        now, used = time.monotonic(), _core_seconds()
        idle, whole = (after - before for after, before in zip(used, self._used, strict=True))
        spent = Spent(
            seconds=round(now - self._began, 1),
            start_seconds=round(min(self._start, now - self._began), 1),
            idle_share=round(min(1.0, max(0.0, idle / whole)), 3) if whole > 0 else None,
        )
        self._began, self._used, self._start = now, used, 0.0
        return spent


def _core_seconds() -> tuple[float, float]:
    """Unused and all, of every core since the system came up."""
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    # Linux counts guests' time as users' too.
    guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    return idle, sum(times) - guests
