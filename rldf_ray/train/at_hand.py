"""A training job's folders on the machine of each of its workers.

Where the run is a folder that all machines reach, they are what they are. Where it is in an object
store, a worker works on copies: inputs are fetched first, and what rank 0 leaves in "out" is
uploaded while it works and at the end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from rldf_ray.mirror import SETTLED_S, Mirror
from rldf_ray.models.embedded import resolve_model
from rldf_ray.object_store import ObjectStoreError, is_address

UPLOAD_EVERY_S = 5.0

Loop = Callable[[dict[str, Any]], None]


def with_folders_at_hand(loop: Loop, progress: str) -> Loop:
    """`loop`, whose job has local folders for everything it names.

    Args:
        progress: the file in "out" that is uploaded while it grows.
    """

    def on_this_machine(config: dict[str, Any]) -> None:
        import ray.train

        job = config["job"]
        rank: int = ray.train.get_context().get_world_rank()
        out = job.folders["out"]
        job = replace(job, folders={k: resolve_model(v) for k, v in job.folders.items()})
        if rank or not is_address(out):
            loop({"job": job})
            return
        with _uploading(Mirror(out), progress):
            loop({"job": job})

    return on_this_machine


@contextmanager
def _uploading(mirror: Mirror, progress: str) -> Iterator[None]:
    """Upload what is new in the copy every few seconds, and everything at the end."""
    over = threading.Event()

    def upload() -> None:
        while not over.wait(UPLOAD_EVERY_S):
            try:
                mirror.publish(settled_s=SETTLED_S)
                mirror.publish(progress)
            except ObjectStoreError:
                # The end uploads what is missing, or says why it cannot.
                continue

    thread = threading.Thread(target=upload, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    mirror.publish()
