"""Peak memory of a run: proportional set size (PSS) summed over the process tree."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil


@dataclass
class Peak:
    """Highest PSS seen, GiB; shared pages are counted once over all processes."""

    gib: float = 0.0


def tree_pss_gib() -> float:
    """PSS of this process and everything below it, now, GiB (Linux; elsewhere RSS)."""
    me = psutil.Process()
    total = 0
    for process in [me, *me.children(recursive=True)]:
        try:
            total += _pss(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue  # ended meanwhile
    return total / 2**30


def _pss(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except AttributeError:
        return int(process.memory_info().rss)


@contextmanager
def watch_memory(interval_s: float = 2.0) -> Iterator[Peak]:
    """Keeps the peak up to date from a thread while the block runs."""
    peak, done = Peak(), threading.Event()

    def watch() -> None:
        while not done.wait(interval_s):
            peak.gib = max(peak.gib, tree_pss_gib())

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()
        peak.gib = max(peak.gib, tree_pss_gib())
