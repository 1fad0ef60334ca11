"""A training job's folders on the machine of each of its workers.

Where the run is a folder that all machines reach, they are what they are. Where it is in an object
store, a worker works on copies: inputs are fetched first, and what rank 0 leaves in "out" is
uploaded while it works and at the end, with the shards of checkpoints that other machines have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import torch.distributed as dist

from rldf_ray.models.embedded import resolve_model
from rldf_ray.storage.mirror import SETTLED_S, Mirror, copy_of, local_folder
from rldf_ray.storage.object_store import ObjectStoreError, is_address
from rldf_ray.storage.periodic import repeated
from rldf_ray.storage.plain_path import plain_path
from rldf_ray.train.checkpoint import FOLDER as PPO_CHECKPOINTS
from rldf_ray.train.shards import begin_from_store, make_room, send_shards

UPLOAD_EVERY_S = 5.0

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
        job = replace(job, folders={**folders, "out": _output(out, context)})
        with _uploading(out, context, progress):
            loop({"job": job})

    return on_this_machine


def _output(out: str, context: Any) -> str:
    """What an earlier process of the job left, fetched before any worker writes beside it."""
    if not is_address(out):
        return plain_path(out)
    folder, mirror = copy_of(out), Mirror(out)
    first_here = context.get_local_rank() == 0
    if _apart(context):
        if first_here:
            first = context.get_world_rank() == 0
            begin_from_store(mirror, context.get_world_size(), first=first)
        _barrier()
    if first_here:
        mirror.fetch(beside=True)
        folder.mkdir(parents=True, exist_ok=True)
    _barrier()
    return plain_path(folder)


def _apart(context: Any) -> bool:
    """Whether there are workers on other machines."""
    apart: bool = context.get_world_size() > context.get_local_world_size()
    return apart


def _barrier() -> None:
    if dist.is_initialized():
        dist.barrier()


@contextmanager
def _uploading(out: str, context: Any, progress: str) -> Iterator[None]:
    """Upload what this worker is to upload, every few seconds while it works."""
    if not is_address(out) or (context.get_world_rank() and context.get_local_rank()):
        yield
    elif context.get_world_rank() == 0:
        with _uploading_all(Mirror(out), progress, context.get_world_size()):
            yield
    else:
        with repeated(partial(_quietly, send_shards, Mirror(out)), UPLOAD_EVERY_S):
            yield


def _quietly(call: Callable[..., None], *given: Any) -> None:
    """A store that does not answer is asked again at the next turn."""
    with suppress(ObjectStoreError):
        call(*given)


@contextmanager
def _uploading_all(mirror: Mirror, progress: str, workers: int) -> Iterator[None]:
    """Upload what is new in the copy every few seconds, and everything at the end."""

    def upload() -> None:
        # The end uploads what is missing, or says why it cannot.
        with suppress(ObjectStoreError):
            mirror.publish(settled_s=SETTLED_S)
            mirror.publish(progress)
            make_room(mirror, workers)
            mirror.drop_gone(PPO_CHECKPOINTS)

    with repeated(upload, UPLOAD_EVERY_S):
        yield
    mirror.publish()
