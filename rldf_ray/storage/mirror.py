"""A run in an object store, and this machine's working copy of it.

Programs work on local files. What a stage has finished is uploaded, the manifest last; the journal
goes up while it grows, in segments named by where they begin. Another machine fetches what it
needs. A copy can be deleted at any time: the store's objects are the run.

A local file is current if its size and its time are the object's. What lies in a run below this one
is that run's: it is neither fetched, dropped nor uploaded here.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path, PurePosixPath

from rldf_ray.storage.copied_files import copied_files, discard, is_current, stat_of
from rldf_ray.storage.copies import Copies
from rldf_ray.storage.copy_folder import claim
from rldf_ray.storage.copy_folder import copy_of as copy_of
from rldf_ray.storage.file_lock import file_lock, is_held
from rldf_ray.storage.journal_segments import JOURNAL as JOURNAL
from rldf_ray.storage.journal_segments import join_segments, send_segment
from rldf_ray.storage.lock import LOCK, RunInUseError, StoreLock
from rldf_ray.storage.object_store import ObjectStore, is_address
from rldf_ray.storage.stages import is_large, is_of_model

# A file younger than this may still grow.
SETTLED_S = 5.0

log = logging.getLogger(__name__)


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
        self._copies = Copies(self.store, self.root)

    def claim(self) -> None:
        """Make the copy's folder, or see that it was made for a copy: nothing else is emptied.

        Raises:
            ObjectStoreError: there is a folder of somebody else's.
        """
        claim(self.root, self.store.address)

    def open(self) -> None:
        """Begin with the store's objects: drop what differs, fetch everything that is not large.

        Models and logs are fetched where they are used, not where a program starts.
        """
        self.claim()
        objects, files = self._copies.of()
        self._copies.drop_others(objects, files)
        self._copies.download({n: o for n, o in objects.items() if not is_large(n)})
        self._sent = join_segments(self.store, objects, self.root / JOURNAL)

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
            objects, files = self._copies.of(name)
            for local, path in files.items():
                if local not in objects and not beside:
                    path.unlink(missing_ok=True)
            self._copies.download(objects)
        return self.root / name

    def publish(self, name: str = "", settled_s: float = 0.0, *, models: bool = True) -> None:
        """Upload what has changed below `name`, in the order in which it was written.

        A file that is removed meanwhile is left out, and one that is here as it was fetched: where
        its object is another by now, another machine has written that.

        Args:
            settled_s: leave out what was written in the last seconds.
            models: parts of models and of checkpoints as well.

        Raises:
            RunInUseError: another program has taken the run over.
        """
        self._check_held()
        objects, files = self._copies.of(name)
        now = time.time()
        changed = [
            (stat.st_mtime_ns, local, path)
            for local, path in files.items()
            if (models or not is_of_model(local))
            and (stat := stat_of(path)) is not None
            and not self._copies.is_known(stat, local, objects.get(local))
            # What was written by a clock that was ahead is not young.
            and not 0 <= now - stat.st_mtime < settled_s
        ]
        for _, local, path in sorted(changed):
            with suppress(FileNotFoundError):
                self._copies.upload(path, local)

    def drop_gone(self, name: str) -> None:
        """Remove the folders in `name` that are gone here, if all that is here is there.

        What another machine has added to a folder that is here stays.
        """
        objects, files = self._copies.of(name)
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
        discard(self.root / name)

    def publish_journal(self) -> None:
        """Upload the calls that have finished since the last time, as one more segment.

        What decides the form of requests (`journal/left_out.json`) goes up before them.
        """
        for name, beside in copied_files(self.root, "journal"):
            if not is_current(beside, self.store.stat(name)):
                self._check_held()
                with suppress(FileNotFoundError):
                    self._copies.upload(beside, name)
        path = self.root / JOURNAL
        if path.exists():
            self._check_held()
            self._sent = send_segment(self.store, path, self._sent)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the run for one program, keep its journal uploaded, and upload all at the end.

        Where the block raises, what it has left goes up but for models and checkpoints, which may
        be half written. Where the run cannot be opened, the lock is given back.

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
            with (
                self._given_back(beside),
                # Signs of life from here on: to fetch what is there may take longer than a lock
                # without one is left to its holder.
                self._lock.renewed(beside),
            ):
                self.open()
                self._lock.check()
                opened.set()
                with self._left_where_it_fails():
                    yield
                self.publish()
        finally:
            self._holding = False

    @contextmanager
    def _given_back(self, beside: Callable[[], None]) -> Iterator[None]:
        """Do `beside` once more at the end, and give the lock back."""
        try:
            yield
        except BaseException:
            for last in (beside, self._lock.give_back):
                self._tried(last)
            raise
        if not self._lock.lost:
            beside()
            self._lock.give_back()

    @contextmanager
    def _left_where_it_fails(self) -> Iterator[None]:
        """Upload what tells why the block raised: its tables, and the logs it speaks of."""
        try:
            yield
        except BaseException:
            self._tried(partial(self.publish, models=False))
            raise

    def _tried(self, last: Callable[[], None]) -> None:
        """Do what is left to do where the work has failed, for a reason that matters more."""
        if self._lock.lost:
            return
        try:
            last()
        except Exception as error:  # noqa: BLE001 - whatever it is, the reason of the end is said
            log.warning("%s", error)

    def _check_held(self) -> None:
        if self._lock.lost:
            raise RunInUseError(
                f"{self.store.address}: another program has taken the run over while this one "
                "could not reach the store; this one stops"
            )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One process of this machine at a time fetches the same things."""
        with file_lock(self.root.with_name(f".{self.root.name}.fetching"), wait=True):
            yield


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
