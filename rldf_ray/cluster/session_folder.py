"""Where Ray and vLLM put their sockets: a folder whose path has to be short and writable."""

from __future__ import annotations

import os
import tempfile
import uuid
from pathlib import Path

from rldf_ray.cluster.address import joined_address
from rldf_ray.errors import UserError

RAYS, EVERYBODYS = "RAY_TMPDIR", "TMPDIR"
LONGEST = 107
"""Bytes of a socket's path on Linux (unix(7): 108 with the zero that ends it)."""
SESSION = "ray/session_2030-01-01_00-00-00_000000_{pid}/sockets/plasma_store"
"""The longest path below that folder that Ray binds to."""


class SessionFolderError(UserError):
    """Ray or an engine could not start; the message names the variable and what to set it to."""


def check_session_folder() -> str:
    """The folder for temporary files does for a Ray that this program starts.

    Raises:
        SessionFolderError: its path is too long for sockets, or it cannot be written.
    """
    if joined_address() is not None:
        return "that of the cluster's nodes"
    # As Ray looks for it; of a folder that is not there, it makes one.
    variable = RAYS if RAYS in os.environ else EVERYBODYS
    folder = os.environ.get(variable, "/tmp")
    _check_length(folder, SESSION.format(pid=os.getpid()), variable, "Ray")
    # vLLM's, where an engine has a process of its own.
    _check_length(tempfile.gettempdir(), str(uuid.UUID(int=0)), EVERYBODYS, "vLLM")
    existing = next(p for p in [Path(folder), *Path(folder).absolute().parents] if p.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise SessionFolderError(
            f"Ray cannot write to {folder} ({variable if variable in os.environ else 'the default'}"
            f"): set {RAYS} to a folder of your own"
        )
    return folder


def _check_length(folder: str, below: str, variable: str, who: str) -> None:
    longest = LONGEST - len(below) - 1
    size = len(os.fsencode(folder))
    if size > longest:
        raise SessionFolderError(
            f"{variable}={folder} has {size} bytes, and {who}'s sockets below it have room for "
            f"{longest} (a socket's path has {LONGEST} at most): set {variable} to a folder with a "
            "short path, such as /tmp"
        )
