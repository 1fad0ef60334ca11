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
