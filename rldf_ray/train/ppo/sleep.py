"""Engines and trainer take turns with the memory of machines they share (`engines.sleep`)."""

from __future__ import annotations

import gc

import torch

from rldf_ray.cluster.memory import trim_heap
from rldf_ray.engines.pool import EnginePool
from rldf_ray.train.collectives import barrier


class EngineSleep:
    """Every worker calls `begin` and `end`, and the first one passes it on to the engines."""

    def __init__(self, pool: EnginePool, rank: int, sleep: bool) -> None:
        self._pool, self._first, self._sleep = pool, rank == 0, sleep

    def begin(self) -> None:
        """The engines sleep while the trainer works, once every worker has its answers."""
        if self._sleep:
            barrier()
            if self._first:
                self._pool.sleep()

    def end(self) -> None:
        """The engines wake once all workers are done and have freed what they keep for reuse."""
        if self._sleep:
            release_memory()
        barrier()
        if self._first:
            self.wake()

    def wake(self) -> None:
        """Engines that may sleep do not any more; on a CPU weights have to be loaded then."""
        if self._sleep:
            self._pool.wake()


def release_memory() -> None:
    """Give what this process has freed back to the system, and to other users of its GPU."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    trim_heap()
