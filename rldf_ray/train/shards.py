"""Checkpoints of TRL's trainers in an object store, written by workers on several machines.

    trainer/checkpoint-8/
        trainer_state.json      by worker 0
        global_step8/           by DeepSpeed, under ZeRO a shard a worker
        rng_state_0.pth ...     by each worker, after its shard

Every worker writes on its own machine, and one worker of each machine uploads what is there, in the
order in which it was written. So a checkpoint whose random states are all in the store is whole.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable
from pathlib import PurePosixPath

from rldf_ray.storage.mirror import SETTLED_S, Mirror

TRAINER = "trainer"
STATE = "trainer_state.json"


def is_whole(files: Collection[str], workers: int) -> bool:
    """Whether a checkpoint of `workers` workers has all that a job goes on from.

    Args:
        files: names of the files right in its folder.
    """
    alone = workers == 1
    return STATE in files and (alone or all(f"rng_state_{n}.pth" in files for n in range(workers)))


def begin_from_store(mirror: Mirror, workers: int, *, first: bool) -> None:
    """Leave only checkpoints that every machine can go on from: none but in the store.

    Args:
        first: this worker is the one that also removes from the store what is not whole there.
    """
    shutil.rmtree(mirror.root / TRAINER, ignore_errors=True)
    if first:
        for name, files in _checkpoints(mirror.store.list(TRAINER)).items():
            if not is_whole(files, workers):
                mirror.remove(f"{TRAINER}/{name}")


def send_shards(mirror: Mirror) -> None:
    """Upload what the workers of this machine wrote, on one that has not worker 0.

    Checkpoints that worker 0 has made room of are removed here too: their state is no longer in the
    store, where that of a later one is.
    """
    stored = _checkpoints(mirror.store.list(TRAINER))
    last = max((_step(name) for name, files in stored.items() if STATE in files), default=0)
    for path in (mirror.root / TRAINER).glob("checkpoint-*"):
        if _step(path.name) < last and STATE not in stored.get(path.name, ()):
            shutil.rmtree(path)
    mirror.publish(TRAINER, settled_s=SETTLED_S)


def make_room(mirror: Mirror, workers: int) -> None:
    """Remove from the store what the trainer has removed here, once what stays is whole there."""
    stored = _checkpoints(mirror.store.list(TRAINER))
    here = [path.name for path in (mirror.root / TRAINER).glob("checkpoint-*")]
    if all(is_whole(stored.get(name, ()), workers) for name in here):
        mirror.drop_gone(TRAINER)


def _checkpoints(names: Iterable[str]) -> dict[str, set[str]]:
    """Of objects below `trainer`, the files right in each checkpoint's folder."""
    found: dict[str, set[str]] = {}
    for name in names:
        _, folder, *below = PurePosixPath(name).parts
        if folder.startswith("checkpoint-") and below:
            files = found.setdefault(folder, set())
            files.update(below if len(below) == 1 else ())
    return found


def _step(checkpoint: str) -> int:
    return int(checkpoint.rpartition("-")[2])
