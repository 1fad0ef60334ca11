"""What lies in a folder that people filled."""

from __future__ import annotations

from pathlib import Path


def visible(folder: Path, pattern: str = "*") -> list[Path]:
    """What matches in a folder, by name, but for names that begin with a dot.

    macOS puts "._Age.jsonl", which is none, beside "Age.jsonl" on other systems' disks, and
    ".DS_Store" into folders that were looked at.
    """
    return sorted(path for path in folder.glob(pattern) if not path.name.startswith("."))
