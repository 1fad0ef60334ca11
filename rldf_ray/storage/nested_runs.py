"""Runs that lie below the folder of another one, as the seeds of an audit do.

Each is a run of its own, with a lock, a journal and a copy of its own: whoever works on the outer
one leaves it alone.

    s3://bucket/run/plan.yaml
    s3://bucket/run/seeds/2/plan.yaml
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from pathlib import Path

from rldf_ray.storage.journal_segments import JOURNAL
from rldf_ray.storage.lock import LOCK

MARKS = (LOCK, "plan.yaml", JOURNAL)
"""What a folder has that was begun as a run: one of these, by whatever it has come to."""
_OF_A_RUN = re.compile(f"(.+?)/({'|'.join(map(re.escape, MARKS))})(/.*)?", re.DOTALL)


def runs_among(names: Iterable[str], below: str = "") -> set[str]:
    """The folders of runs strictly below the folder `below`, by the names of objects in it."""
    found = {match[1] for name in names if (match := _OF_A_RUN.fullmatch(name))}
    return {folder for folder in found if not below or folder.startswith(f"{below}/")}


def runs_on_disk(root: Path, below: str = "") -> set[str]:
    """The folders of runs strictly below `root`/`below`, named from `root`."""
    found: set[str] = set()
    for folder, inside, _ in os.walk(root / below):
        runs = [name for name in inside if _is_run(Path(folder, name))]
        inside[:] = [name for name in inside if name not in runs]
        found.update(Path(folder, name).relative_to(root).as_posix() for name in runs)
    return found


def is_within(name: str, folders: Collection[str]) -> bool:
    """Whether a file or an object lies in one of the folders."""
    return any(name.startswith(f"{folder}/") for folder in folders)


def _is_run(folder: Path) -> bool:
    return any((folder / mark).exists() for mark in MARKS)
