"""Where programs of one machine hand large files to each other: its shared memory, if it has room.

Containers often have 64 MB of it. A program that writes to a page for which there is no room any
more is ended by SIGBUS, so there has to be room beforehand.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from rldf_ray.errors import UserError

SHARED = Path("/dev/shm")
# What others of the machine may write meanwhile.
SPARE = 16 * 2**20
PREFIX = "rldf-weights-"


class NoRoomError(UserError):
    """Nothing on this machine has room; the message says how to make some."""


def places() -> list[Path]:
    """The folders to look for room in, the fastest first."""
    found = [SHARED, Path(tempfile.gettempdir())]
    return [place for place in dict.fromkeys(found) if place.is_dir()]


def place_for(size: int, given: Sequence[Path] | None = None) -> Path:
    """The first folder that has room for so many bytes.

    Args:
        given: in place of `places()`.

    Raises:
        NoRoomError: none has.
    """
    free = {place: shutil.disk_usage(place).free for place in given or places()}
    for place, room in free.items():
        if room >= size + SPARE:
            return place
    found = ", ".join(f"{place} has {room / 2**20:.0f} MB free" for place, room in free.items())
    raise NoRoomError(
        f"no room for {size / 2**20:.0f} MB of weights on their way to the engines: {found}; give "
        "the machine more shared memory (docker run --shm-size=..., on Kubernetes an emptyDir of "
        f"medium Memory at {SHARED}), or set TMPDIR to a folder that has room"
    )


def passing_folder(size: int, opened: ExitStack) -> Path:
    """A folder with room for so many bytes, which nobody else removes, and `opened` at its end.

    Raises:
        NoRoomError: there is no room.
    """
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place_for(size)))
    opened.enter_context(_locked(folder))
    opened.callback(shutil.rmtree, folder, ignore_errors=True)
    return folder


def remove_left_behind(shared: Path) -> None:
    """Give back the memory of programs that were killed: the next one may need it."""
    # One that is still empty may be a program's that is about to lock it.
    for folder in {file.parent for file in shared.glob(f"{PREFIX}*/*")}:
        # Locks, not process ids: those of another container on this machine mean nothing here.
        with suppress(OSError), _locked(folder):
            shutil.rmtree(folder)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Held until the process is gone; BlockingIOError if another process holds it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
