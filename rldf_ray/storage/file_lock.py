"""A lock between programs of one machine that goes with its holder, however that ends."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rldf_ray.errors import UserError


class LockFileError(UserError):
    """What lies where a lock's file belongs is none; the message names it."""


@contextmanager
def file_lock(path: Path, *, wait: bool) -> Iterator[None]:
    """Hold the file `path`, which is made where it is missing, and never written to.

    Raises:
        BlockingIOError: another program holds it, and `wait` is false.
        LockFileError: `path` is a symbolic link, or no plain file.
        OSError: it cannot be made.
    """
    # No link is followed: whoever can put one there would choose which file is opened.
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise LockFileError(
                f"{path} is to be a lock, and is a link, a folder or a device: remove it"
            ) from None
        raise
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(descriptor)


def is_held(path: Path) -> bool:
    """Whether somebody holds the file `path` now; not if there is none."""
    if not path.exists():
        return False
    try:
        with file_lock(path, wait=False):
            return False
    except BlockingIOError:
        return True
