"""Objects of a store and the files that are their copies in a folder, one beside the other."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from rldf_ray.storage.copied_files import copied_files, is_current, is_hidden, is_object
from rldf_ray.storage.journal_segments import is_segment
from rldf_ray.storage.nested_runs import is_within, runs_among, runs_on_disk
from rldf_ray.storage.object_store import ObjectInfo, ObjectStore
from rldf_ray.storage.whole_files import whole_file


class Copies:
    """What is in `store` and what is in the folder `root`, by the objects' names."""

    def __init__(self, store: ObjectStore, root: Path) -> None:
        self._store, self._root = store, root
        # What the object was when the file last was its copy.
        self._same: dict[str, ObjectInfo] = {}

    def of(self, name: str = "") -> tuple[dict[str, ObjectInfo], dict[str, Path]]:
        """The objects and the files at and below `name`, without those of runs below it."""
        objects = self._store.list(name)
        runs = runs_among(objects, name) | runs_on_disk(self._root, name)
        files = copied_files(self._root, name)
        return (
            {stored: info for stored, info in objects.items() if not is_within(stored, runs)},
            {local: path for local, path in files if not is_within(local, runs)},
        )

    def drop_others(self, objects: Mapping[str, ObjectInfo], files: Mapping[str, Path]) -> None:
        """Remove those of `files` that are no copies of `objects` as these are now."""
        for name, path in files.items():
            info = objects.get(name)
            if info is not None and is_current(path, info):
                self._same[name] = info
            else:
                path.unlink(missing_ok=True)

    def download(self, objects: Mapping[str, ObjectInfo]) -> None:
        for name, info in objects.items():
            path = self._root / name
            if is_hidden(name) or is_segment(name):
                continue
            if not is_current(path, info):
                path.parent.mkdir(parents=True, exist_ok=True)
                with whole_file(path) as scratch:
                    self._store.download(name, scratch)
                    os.utime(scratch, (info.written_s, info.written_s))
            self._same[name] = info

    def upload(self, path: Path, name: str) -> None:
        before = path.stat()
        info = self._store.upload(path, name)
        now = path.stat()
        changed = (now.st_mtime_ns, now.st_size) != (before.st_mtime_ns, before.st_size)
        # What has grown meanwhile goes up again the next time.
        if not changed and now.st_size == info.size:
            os.utime(path, (info.written_s, info.written_s))
            self._same[name] = info

    def is_known(self, stat: os.stat_result, name: str, stored: ObjectInfo | None) -> bool:
        """Whether a file is a copy of the object, or of what that was before it was written anew.

        Args:
            stored: the object now; None where there is none.
        """
        return stored is not None and (
            is_object(stat, stored) or is_object(stat, self._same.get(name))
        )
