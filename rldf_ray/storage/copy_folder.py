"""Where this machine has its copies of what lies in object stores: in marked folders of the cache.

Nothing but a folder that was made for copies is ever emptied.
"""

from __future__ import annotations

from pathlib import Path

from rldf_ray.storage.cache import cache_root, writable_cache
from rldf_ray.storage.object_store import ObjectStoreError, normal_form

MARK = ".rldf-copy"
"""In a folder that was made for copies: what lies in it and below it may be dropped."""


def copy_of(address: str) -> Path:
    """Where this machine's copy of what lies below an address is: always below the cache."""
    return cache_root() / "runs" / normal_form(address)


def claim(root: Path, address: str) -> None:
    """Make the folder `root` of the copy of `address`, or see that it was made for a copy.

    Raises:
        ObjectStoreError: there is a folder of somebody else's.
    """
    top = writable_cache() / "runs"
    below = root.relative_to(top).parts
    folders = [top.joinpath(*below[:depth]) for depth in range(len(below) + 1)]
    for folder in folders:
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        (folder / MARK).touch()
    ours = any((folder / MARK).exists() for folder in folders)
    if not root.resolve().is_relative_to(top.resolve()) or (not ours and any(root.iterdir())):
        raise ObjectStoreError(
            f"{root} is to become the copy of {address}, and holds files that are of no copy: move "
            "it away, or set RLDF_CACHE to another folder"
        )
    (root / MARK).touch()
