"""Paths that may begin with a home."""

from __future__ import annotations

import os.path
from pathlib import Path


def home_path(name: str) -> Path:
    """`name` as a path, with `~` and `~user` in front as that home.

    Where there is no such home the name stays as it is: it may be a hub's or a server's name of a
    model, and if it is none, whoever looks there says so. (`Path.expanduser` raises.)
    """
    return Path(os.path.expanduser(name))  # noqa: PTH111
