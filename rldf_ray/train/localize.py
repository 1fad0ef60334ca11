"""A training job's folders on the machine of each of its workers.

Where the run is a folder that all machines reach, they are what they are. Where it is in an object
store, a worker works on copies: inputs are fetched first, and what rank 0 leaves in "out" is
uploaded while it works and at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import torch.distributed as dist

from rldf_ray.models.embedded import resolve_model
from rldf_ray.storage.mirror import SETTLED_S, Mirror, copy_of, local_folder
from rldf_ray.storage.object_store import ObjectStoreError, is_address
from rldf_ray.storage.periodic import repeated
from rldf_ray.storage.plain_path import plain_path

UPLOAD_EVERY_S = 5.0
# Folders in "out" in which old checkpoints make room for new ones: TRL's trainers', PPO's.
CHECKPOINTS = ("trainer", "checkpoints")

Loop = Callable[[dict[str, Any]], None]


def localize_inputs(loop: Loop, progress: str) -> Loop:
    """`loop`, whose job has local folders for everything it names.

    Args:
        progress: the file in "out" that is uploaded while it grows.
    """

    def on_this_machine(config: dict[str, Any]) -> None:
        import ray.train

        job, context = config["job"], ray.train.get_context()
        out = job.folders["out"]
        folders = {
            name: plain_path(local_folder(where))
            for name, where in job.folders.items()
            if name != "out"
        }
        if "model" in folders:
            folders["model"] = resolve_model(folders["model"])
        job = replace(job, folders={**folders, "out": _output(out, context.get_local_rank())})
        if context.get_world_rank() or not is_address(out):
            loop({"job": job})
            return
        with _uploading(Mirror(out), progress):
            loop({"job": job})

    return on_this_machine


def _output(out: str, local_rank: int) -> str:
    """What an earlier process of the job left, fetched before any worker writes beside it."""
    if not is_address(out):
        return plain_path(out)
    folder = copy_of(out)
    if local_rank == 0:
        Mirror(out).fetch(beside=True)
        folder.mkdir(parents=True, exist_ok=True)
    if dist.is_initialized():
        dist.barrier()
    return plain_path(folder)


@contextmanager
def _uploading(mirror: Mirror, progress: str) -> Iterator[None]:
    """Upload what is new in the copy every few seconds, and everything at the end."""

    def upload() -> None:
        # The end uploads what is missing, or says why it cannot.
        with suppress(ObjectStoreError):
            mirror.publish(settled_s=SETTLED_S)
            mirror.publish(progress)
            for folder in CHECKPOINTS:
                mirror.drop_gone(folder)

    with repeated(upload, UPLOAD_EVERY_S):
        yield
    mirror.publish()
