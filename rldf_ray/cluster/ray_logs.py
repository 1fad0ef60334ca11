"""The logs of Ray's processes, actors and engines, in the run's folder.

Ray's own folder lies among temporary files, where everybody on the host may write. So what is
copied from there is bounded, and is our own plain files alone: a link or a pipe that somebody has
put there would have another file copied into the run, or hold the program up for ever.
"""

from __future__ import annotations

import logging
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

FILE_BYTES = 2**26
"""Of a longer file its end is kept."""
ALL_BYTES = 2**29
FILES = 10_000

log = logging.getLogger(__name__)


def link_logs(source: Path, target: Path) -> None:
    """While Ray runs, `target` shows its log folder."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_symlink():
        target.unlink()
    elif target.exists():
        shutil.rmtree(target)
    target.symlink_to(source)


def keep_logs(source: Path, target: Path) -> None:
    """After Ray has ended, `target` has a copy.

    Whatever goes wrong is a warning: the program may be ending for a reason that matters more.
    """
    try:
        if target.is_symlink():
            target.unlink()
        _copy(source, target)
    except OSError as error:
        log.warning("Ray's logs in %s were not all copied to %s: %s", source, target, error)


def _copy(source: Path, target: Path) -> None:
    left = ALL_BYTES
    for number, (name, file, size) in enumerate(_own_files(source)):
        if number >= FILES or left <= 0:
            log.warning("%s holds more than is kept of Ray's logs: %s has a part", source, target)
            return
        # With our own rights, not with those of a folder that is everybody's.
        place = target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        kept = min(size, FILE_BYTES, left)
        file.seek(size - kept)
        with place.open("wb") as copy:
            left -= copy.write(file.read(kept))


def _own_files(folder: Path) -> Iterator[tuple[Path, BinaryIO, int]]:
    """Plain files below `folder` that are ours and have no other name, open, with their sizes."""
    # By descriptors, so that no folder can become a link on the way.
    for below, folders, names, descriptor in os.fwalk(folder, follow_symlinks=False):
        folders.sort()
        for name in sorted(names):
            try:
                # A pipe without a writer would hold up whoever opens it.
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                opened = os.open(name, flags, dir_fd=descriptor)
            except OSError:
                continue  # a link, or gone
            with os.fdopen(opened, "rb") as file:
                facts = os.fstat(opened)
                own = facts.st_uid == os.geteuid() and facts.st_nlink == 1
                if stat.S_ISREG(facts.st_mode) and own:
                    yield (Path(below) / name).relative_to(folder), file, facts.st_size
