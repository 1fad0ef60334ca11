"""What lies in a folder that people filled."""

from __future__ import annotations

import os
from pathlib import Path


def visible(folder: Path, pattern: str = "*") -> list[Path]:
    """What matches in a folder, by name, but for names that begin with a dot.

    macOS puts "._Age.jsonl", which is none, beside "Age.jsonl" on other systems' disks, and
    ".DS_Store" into folders that were looked at.

    Raises:
        OSError: there is such a folder, and it cannot be read.
    """
    if folder.is_dir():
        # `glob` passes over a folder that it has no right to, as if it were empty.
        os.scandir(folder).close()
    return sorted(path for path in folder.glob(pattern) if not path.name.startswith("."))


def visible_below(folder: Path) -> list[Path]:
    """Every file below a folder, but for those whose names, or whose folders', begin with a dot."""
    paths = []
    for where, inside, names in os.walk(folder):
        inside[:] = [name for name in inside if not name.startswith(".")]
        paths += [Path(where) / name for name in names if not name.startswith(".")]
    return sorted(paths)


def foreign_file(folder: Path) -> str | None:
    """Why a folder cannot be handed on whole; None where it can.

    Nothing of another place goes with it: what a link leads to may be a secret.
    """
    for path in folder.rglob("*"):
        target = path.resolve()
        if path.is_symlink() and not target.is_relative_to(folder.resolve()):
            return (
                f"{path} is a link that leads out of the folder, to {target}: put the file itself "
                "there (`cp -rL` copies a folder with what its links lead to)"
            )
        if not (path.is_dir() or path.is_file()):
            return f"{path} is no file that can be published: remove it"
    return None
