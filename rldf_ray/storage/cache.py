"""The user's cache: what can be made or fetched again."""

from __future__ import annotations

import os
from pathlib import Path

from rldf_ray.errors import UserError

VARIABLE = "RLDF_CACHE"


class CacheError(UserError):
    """There is no cache, or it cannot be written; the message names the variable that moves it."""


def cache_root() -> Path:
    """`$RLDF_CACHE`, else a folder in the user's home.

    Raises:
        CacheError: the user has no home.
    """
    try:
        return Path(os.environ.get(VARIABLE) or "~/.cache/rldf_ray").expanduser()
    except RuntimeError:
        raise CacheError(
            f"this user has no home folder for the cache: set {VARIABLE} to a folder that can be "
            "written"
        ) from None


def writable_cache(name: str = "") -> Path:
    """The folder `name` of the cache, which exists afterwards and can be written.

    Raises:
        CacheError: it cannot be made or written.
    """
    folder = cache_root() / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error.strerror or str(error)) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _unwritable(folder, "no right to")
    return folder


def _unwritable(folder: Path, why: str) -> CacheError:
    return CacheError(
        f"the cache {folder} cannot be written ({why}): set {VARIABLE} to a folder that can"
    )
