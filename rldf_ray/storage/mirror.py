"""A run in an object store, and this machine's working copy of it.

Programs work on local files. What a stage has finished is uploaded, the manifest last; the journal
goes up while it grows, in segments named by where they begin. Another machine fetches what it
needs. A copy can be deleted at any time: the store's objects are the run.

A local file is current if its size and its time are the object's.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from rldf_ray.storage.cache import cache_root, writable_cache
from rldf_ray.storage.copied_files import (
    copied_files,
    is_current,
    is_hidden,
    is_object,
    stat_of,
)
from rldf_ray.storage.file_lock import file_lock, is_held
from rldf_ray.storage.lock import LOCK, RunInUseError, StoreLock
from rldf_ray.storage.object_store import (
    ObjectInfo,
    ObjectStore,
    ObjectStoreError,
    is_address,
    normal_form,
)
from rldf_ray.storage.stages import is_large
from rldf_ray.storage.whole_files import whole_file

JOURNAL = "journal/calls.jsonl"
MARK = ".rldf-copy"
"""In a folder that was made for copies: what lies in it and below it may be dropped."""
# A file younger than this may still grow.
SETTLED_S = 5.0


class Mirror:
    """The objects below an address, and their copy on this machine.

    Attributes:
        root: the copy; what lies below an address lies below its folder too.
    """

    def __init__(self, address: str, beat_s: float = 10.0) -> None:
        self.store = ObjectStore(address)
        self.root = copy_of(address)
        self._lock = StoreLock(self.store, beat_s)
        self._sent = 0
        self._holding = False

    def claim(self) -> None:
        """Make the copy's folder, or see that it was made for a copy: nothing else is emptied.

        Raises:
            ObjectStoreError: there is a folder of somebody else's.
        """
        top = writable_cache() / "runs"
        below = self.root.relative_to(top).parts
        folders = [top.joinpath(*below[:depth]) for depth in range(len(below) + 1)]
        for folder in folders:
            try:
                folder.mkdir()
            except FileExistsError:
                continue
            (folder / MARK).touch()
        ours = any((folder / MARK).exists() for folder in folders)
        if not self.root.resolve().is_relative_to(top.resolve()) or (
            not ours and any(self.root.iterdir())
        ):
            raise ObjectStoreError(
                f"{self.root} is to become the copy of {self.store.address}, and holds files that "
                "are of no copy: move it away, or set RLDF_CACHE to another folder"
            )
        (self.root / MARK).touch()

    def open(self) -> None:
        """Begin with the store's objects: drop what differs, fetch everything that is not large.

        Models and logs are fetched where they are used, not where a program starts.
        """
        self.claim()
        objects = self.store.list()
        for name, path in self._local_files():
            if not is_current(path, objects.get(name)):
                path.unlink(missing_ok=True)
        self._download({n: o for n, o in objects.items() if not is_large(n)})
        self._open_journal([n for n in objects if n.startswith(f"{JOURNAL}/")])

    def fetch(self, name: str = "", *, beside: bool = False) -> Path:
        """The object or folder `name` as the store has it; returns where it lies.

        Where another program of this machine works on the run, its copy is the run, and is ahead
        of the store: nothing is fetched.

        Args:
            beside: leave other files that lie there.
        """
        self.claim()
        if not self._holding and is_held(self.root / LOCK):
            return self.root / name
        with self._alone():
            objects = self.store.list(name)
            for local, path in self._local_files(name):
                if local not in objects and not beside:
                    path.unlink(missing_ok=True)
            self._download(objects)
        return self.root / name

    def publish(self, name: str = "", settled_s: float = 0.0) -> None:
        """Upload what has changed below `name`, in the order in which it was written.

        A file that is removed meanwhile is left out.

        Args:
            settled_s: leave out what was written in the last seconds.

        Raises:
            RunInUseError: another program has taken the run over.
        """
        self._check_held()
        objects = self.store.list(name)
        now = time.time()
        changed = [
            (stat.st_mtime_ns, local, path)
            for local, path in self._local_files(name)
            if (stat := stat_of(path)) is not None
            and not is_object(stat, objects.get(local))
            # What was written by a clock that was ahead is not young.
            and not 0 <= now - stat.st_mtime < settled_s
        ]
        for _, local, path in sorted(changed):
            with suppress(FileNotFoundError):
                self._upload(path, local)

    def drop_gone(self, name: str) -> None:
        """Remove the folders in `name` that are gone here, if all that is here is there.

        What another machine has added to a folder that is here stays.
        """
        objects, files = self.store.list(name), dict(self._local_files(name))
        if not all(is_current(path, objects.get(local)) for local, path in files.items()):
            return
        depth = len(PurePosixPath(name).parts) + 1
        here = {PurePosixPath(local).parts[:depth] for local in files}
        for stored in objects:
            if PurePosixPath(stored).parts[:depth] not in here:
                self.store.delete(stored)

    def remove(self, name: str) -> None:
        """Remove an object or folder here and there."""
        self.claim()
        for stored in self.store.list(name):
            self.store.delete(stored)
        path = self.root / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    def publish_journal(self) -> None:
        """Upload the calls that have finished since the last time, as one more segment.

        What decides the form of requests (`journal/left_out.json`) goes up before them.
        """
        for name, beside in self._local_files("journal"):
            if not is_current(beside, self.store.stat(name)):
                self._check_held()
                with suppress(FileNotFoundError):
                    self._upload(beside, name)
        path = self.root / JOURNAL
        if not path.exists():
            return
        self._check_held()
        with path.open("rb") as file:
            file.seek(self._sent)
            new = file.read()
        new = new[: new.rfind(b"\n") + 1]
        if new:
            self.store.write(f"{JOURNAL}/{self._sent:016d}", new)
            self._sent += len(new)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the run for one program, keep its journal uploaded, and upload all at the end.

        Where it cannot be opened, the lock is given back.

        Raises:
            RunInUseError: another program works on it.
        """
        opened = threading.Event()

        def beside() -> None:
            if opened.is_set():
                self.publish_journal()

        self._holding = True
        try:
            self._lock.take()
            try:
                # Signs of life from here on: to fetch what is there may take longer than a lock
                # without one is left to its holder.
                with self._lock.renewed(beside):
                    self.open()
                    self._lock.check()
                    opened.set()
                    yield
                    self.publish()
            finally:
                if not self._lock.lost:
                    beside()
                    self._lock.give_back()
        finally:
            self._holding = False

    def _check_held(self) -> None:
        if self._lock.lost:
            raise RunInUseError(
                f"{self.store.address}: another program has taken the run over while this one "
                "could not reach the store; this one stops"
            )

    def _open_journal(self, segments: list[str]) -> None:
        """One file of all segments; a call that was not uploaded is made again."""
        path = self.root / JOURNAL
        path.unlink(missing_ok=True)
        self._sent = 0
        if not segments:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            for segment in sorted(segments):
                if segment != f"{JOURNAL}/{self._sent:016d}":
                    raise ObjectStoreError(
                        f"{self.store.address}: {JOURNAL} has no segment at byte {self._sent}, the "
                        f"next is {segment}: two programs wrote it; delete the segments from there"
                    )
                self._sent += file.write(self.store.read(segment))

    def _download(self, objects: dict[str, ObjectInfo]) -> None:
        for name, info in objects.items():
            path = self.root / name
            if is_hidden(name) or name.startswith(f"{JOURNAL}/") or is_current(path, info):
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(path) as scratch:
                self.store.download(name, scratch)
                os.utime(scratch, (info.written_s, info.written_s))

    def _upload(self, path: Path, name: str) -> None:
        before = path.stat()
        info = self.store.upload(path, name)
        now = path.stat()
        # What has grown meanwhile goes up again the next time.
        if (
            (now.st_mtime_ns, now.st_size)
            == (before.st_mtime_ns, before.st_size)
            == (
                before.st_mtime_ns,
                info.size,
            )
        ):
            os.utime(path, (info.written_s, info.written_s))

    def _local_files(self, name: str = "") -> Iterator[tuple[str, Path]]:
        return copied_files(self.root, name)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One process of this machine at a time fetches the same things."""
        with file_lock(self.root.with_name(f".{self.root.name}.fetching"), wait=True):
            yield


def copy_of(address: str) -> Path:
    """Where this machine's copy of what lies below an address is: always below the cache."""
    return cache_root() / "runs" / normal_form(address)


def local_folder(where: str) -> str:
    """A folder on this machine for an address, which is fetched; anything else as it is.

    Raises:
        ObjectStoreError: it cannot be fetched.
    """
    if not is_address(where):
        return where
    folder = Mirror(where).fetch()
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)
