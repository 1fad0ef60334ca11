"""Which files of a copy have objects in the store, and whether a file is what its object is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from rldf_ray.storage.object_store import ObjectInfo


def copied_files(root: Path, name: str = "") -> Iterator[tuple[str, Path]]:
    """The file `name` of the copy at `root`, or every file below it, by its object's name."""
    top = root / name
    if top.is_file():
        yield name, top
    for folder, _, files in os.walk(top):
        for file in files:
            path = Path(folder) / file
            local = str(path.relative_to(root))
            if not is_hidden(local) and not _is_log(local):
                yield local, path


def is_hidden(name: str) -> bool:
    """Locks, scratch files, and what Ray Train keeps for itself."""
    return any(part.startswith(".") or part == "ray_train" for part in name.split("/"))


def _is_log(name: str) -> bool:
    """Of calls, which go up in segments, and scratch lists of what has ended."""
    return name.startswith("journal/") and name.endswith(".jsonl")


def is_current(path: Path, info: ObjectInfo | None) -> bool:
    """Whether there is such a file, and it is what the object is."""
    stat = stat_of(path)
    return stat is not None and is_object(stat, info)


def stat_of(path: Path) -> os.stat_result | None:
    """None for a file that has been removed: checkpoints make room for each other at any time."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def is_object(stat: os.stat_result, info: ObjectInfo | None) -> bool:
    """Whether a file has the object's size and time."""
    if info is None:
        return False
    return stat.st_size == info.size and stat.st_mtime_ns == info.written_s * 10**9


def discard(path: Path) -> None:
    """Remove a file or a folder, if there is one."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
