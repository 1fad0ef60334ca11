"""Paths that libraries do not take for patterns.

vLLM, DeepSpeed, transformers and datasets look for files by the pattern FOLDER/*: where the
folder's own path holds a bracket or a star, they find none, or another folder's.
"""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path

from rldf_ray.errors import UserError
from rldf_ray.storage.cache import cache_root
from rldf_ray.storage.digest import digest

PATTERN = re.compile(r"[*?\[\]]|::")


class PathError(UserError):
    """A path that cannot be used; the message says which variable to change."""


def plain_path(folder: str | Path) -> str:
    """A folder's path as it is, or a link to the folder in the cache where libraries misread it.

    A folder has one link on a machine, whoever asks, so that what is cached by path stays.

    Raises:
        PathError: the cache's path would be misread as well.
    """
    path = str(folder)
    if PATTERN.search(path) is None:
        return path
    path = str(Path(path).absolute())
    links = cache_root().absolute() / "links"
    if PATTERN.search(str(links)):
        raise PathError(
            f"{path}: libraries take *, ?, [ and ] in it for a pattern, and so they do in the "
            f"cache's own path {links.parent}: set RLDF_CACHE to a folder without them"
        )
    link = links / digest(path)
    if not (link.is_symlink() and os.readlink(link) == path):  # noqa: PTH115 - the text as it is
        links.mkdir(parents=True, exist_ok=True)
        # Several workers and threads may make it at once.
        scratch = links / f".{link.name}.{secrets.token_hex(4)}"
        scratch.symlink_to(path)
        scratch.replace(link)
    return str(link)
