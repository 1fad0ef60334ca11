"""Seconds, tokens a second, share of a card's peak and memory of a piece of work on one device."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

WARM_UP = 2
FIGURES = ("seconds", "median_s", "tokens_per_s", "tflops", "peak_share", "peak_gib")


@dataclass(frozen=True, kw_only=True)
class Work:
    """What is measured.

    Attributes:
        tokens: of one run, for the rate.
        flops: of one run.
        prepare: makes the inputs of the run of that number; it is not timed.
        run: is timed, with those inputs.
    """

    tokens: int
    flops: float
    prepare: Callable[[int], Any]
    run: Callable[[Any], object]


@dataclass(frozen=True, kw_only=True)
class Clock:
    """Measures on one device.

    Attributes:
        peak_tflops: of the card; None where it is not known, and no share is given.
    """

    device: str
    repeats: int
    peak_tflops: float | None

    def measure(self, works: Iterator[tuple[str, Work]]) -> dict[str, dict[str, Any]]:
        """What each piece of work takes, by its name.

        What the card has no memory for has the figure None: a piece of work, or, by the name
        "models", those of all of it.
        """
        measured: dict[str, dict[str, Any]] = {}
        self._free()
        try:
            for name, work in works:
                seconds, peak_gib = self._repeated(work)
                measured[name] = self._figures(work, seconds, peak_gib)
                self._free()
        except torch.OutOfMemoryError:
            measured["models"] = dict.fromkeys(FIGURES) | {"seconds": []}
        return measured

    def _repeated(self, work: Work) -> tuple[list[float], float | None]:
        """Seconds of every repeat, none where memory ran out, and the peak, GiB."""
        if self.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        try:
            seconds = [self._seconds(work, number) for number in range(WARM_UP + self.repeats)]
        except torch.OutOfMemoryError:
            return [], None
        peak = torch.cuda.max_memory_allocated() / 2**30 if self.device == "cuda" else None
        return seconds[WARM_UP:], peak

    def _seconds(self, work: Work, number: int) -> float:
        inputs = work.prepare(number)
        if self.device == "cuda":
            return _seconds_by_events(lambda: work.run(inputs))
        began = time.perf_counter()
        work.run(inputs)
        return time.perf_counter() - began

    def _figures(self, work: Work, seconds: list[float], peak_gib: float | None) -> dict[str, Any]:
        if not seconds:
            return dict.fromkeys(FIGURES) | {"seconds": []}
        median = statistics.median(seconds)
        rate = work.flops / median / 1e12
        share = None if self.peak_tflops is None else rate / self.peak_tflops
        values = (seconds, median, work.tokens / median, rate, share, peak_gib)
        return dict(zip(FIGURES, values, strict=True))

    def _free(self) -> None:
        """Give back what earlier models held; they refer to themselves."""
        gc.collect()
        if self.device == "cuda":
            torch.cuda.empty_cache()


def _seconds_by_events(run: Callable[[], object]) -> float:
    """From when the card begins with it to when the card has done all of it."""
    began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    began.record()
    run()
    ended.record()
    ended.synchronize()
    return float(began.elapsed_time(ended)) / 1000
