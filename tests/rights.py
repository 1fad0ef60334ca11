"""Files and folders that a user has no right to, for root too."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534


@contextmanager
def without_rights(name: str) -> Iterator[Path]:
    """A file or folder `name` that cannot be read in the block; its own folder can be.

    A name with a suffix is a file. pytest's own folders are root's alone, so it lies in another.
    """
    user = os.geteuid()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = Path(folder) / name
        if path.suffix:
            path.write_text("Some text.", encoding="utf-8")
        else:
            path.mkdir()
        path.chmod(0)
        if user == 0:
            os.seteuid(NOBODY)
        try:
            yield path
        finally:
            if user == 0:
                os.seteuid(user)
            path.chmod(0o700)
