"""One program at a time on what lies in an object store.

A store has no lock that goes with a program. The lock here is an object that its holder writes
again every few seconds; one that stays as it is for three times as long is a dead program's. Two
programs that start within the same second can both miss each other.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rldf_ray.errors import UserError
from rldf_ray.storage.json_text import json_text
from rldf_ray.storage.object_store import ObjectStore, ObjectStoreError
from rldf_ray.storage.periodic import repeated

LOCK = ".lock"

log = logging.getLogger(__name__)


class RunInUseError(UserError):
    """Another program works on the run."""


class StoreLock:
    """The lock of everything in `store`, renewed every `beat_s` seconds while it is held."""

    def __init__(self, store: ObjectStore, beat_s: float) -> None:
        self._store, self._beat_s = store, beat_s
        self._mark = {"host": socket.gethostname(), "pid": os.getpid(), "token": uuid.uuid4().hex}
        self.lost = False

    def take(self) -> None:
        """Wait for a holder's sign of life, and take the lock of one that gives none.

        Raises:
            RunInUseError: another program lives.
        """
        held = self._store.read(LOCK)
        if held:
            log.warning("%s has a holder; waiting for its sign of life", self._store.address)
            time.sleep(3 * self._beat_s)
            now = self._store.read(LOCK)
            if now and now != held:
                raise self._in_use(now)
        self._beat(0)

    def check(self) -> None:
        """Raise RunInUseError if another program has the lock."""
        now = self._store.read(LOCK)
        if _mark_of(now).get("token") != self._mark["token"]:
            self.lost = True
            raise self._in_use(now)

    @contextmanager
    def renewed(self, beside: Callable[[], None]) -> Iterator[None]:
        """Give signs of life, and do `beside` after each, for as long as the block lasts."""

        numbers = itertools.count(1)

        def beat() -> None:
            if self.lost:
                return
            try:
                self.check()
                self._beat(next(numbers))
                beside()
            except (ObjectStoreError, RunInUseError) as error:
                # The next beat tries again, unless the lock is lost; the end of the work raises
                # what is still wrong.
                log.warning("%s", error)

        with repeated(beat, self._beat_s):
            yield

    def give_back(self) -> None:
        self._store.delete(LOCK)

    def _beat(self, number: int) -> None:
        self._store.write(LOCK, json_text({**self._mark, "beat": number}).encode())

    def _in_use(self, content: bytes) -> RunInUseError:
        mark = _mark_of(content)
        return RunInUseError(
            f"{self._store.address} is in use by another rldf program (process {mark.get('pid')} "
            f"on {mark.get('host')}): wait for it or give another --out"
        )


def _mark_of(content: bytes) -> dict[str, Any]:
    """What a holder wrote; nothing of what is no mark, which is then a dead program's."""
    try:
        mark = json.loads(content)
    except ValueError:
        return {}
    return mark if isinstance(mark, dict) else {}
