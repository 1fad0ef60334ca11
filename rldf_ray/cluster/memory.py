"""Memory: what a run takes, as proportional set size (PSS) of its processes, and giving it back."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from rldf_ray.storage.periodic import repeated


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
    """Bytes. The kernel's own sum is a fraction of the work of adding up every mapping."""
    rollup = Path(f"/proc/{process.pid}/smaps_rollup")
    try:
        lines = rollup.read_text(encoding="utf-8").splitlines()
    except PermissionError as error:
        raise psutil.AccessDenied(process.pid) from error
    except (FileNotFoundError, ProcessLookupError):
        return int(process.memory_info().rss)
    sizes = [line.split()[1] for line in lines if line.startswith("Pss:")]
    return 1024 * int(sizes[0]) if sizes else 0


def trim_heap() -> None:
    """Give what this process has freed back to the system, which glibc leaves to others to ask."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


@contextmanager
def watch_memory(interval_s: float = 5.0) -> Iterator[Peak]:
    """Keeps the peak up to date from a thread while the block runs."""
    peak = Peak()

    def watch() -> None:
        peak.gib = max(peak.gib, tree_pss_gib())

    try:
        with repeated(watch, interval_s):
            yield peak
    finally:
        watch()
