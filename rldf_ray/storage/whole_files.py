"""Files that are there whole or not at all, whatever ends the program that writes them."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A place beside `path` to write to; what the block leaves there becomes `path` at its end.

    A block that raises leaves `path` as it was. Readers see the old file or the new one. Of several
    that write the same file at a time the last one to finish wins.

    Raises:
        OSError: it could not be written; the error has the file's name, as those of writes have
            none.
    """
    # Beside it, as a rename is atomic only within one file system. Hidden, as a mirror uploads
    # what is not. By chance, as programs and threads may write the same file, and a kill leaves
    # what it has; a process's number comes again, at once on another machine or in a container.
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        yield scratch
        # The rename may reach the disk before the content does: after a power cut the file would
        # have its name and nothing in it.
        with scratch.open("rb") as file:
            os.fsync(file.fileno())
        scratch.replace(path)
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error
    finally:
        scratch.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """An empty folder beside `path`; with what the block puts there it becomes `path` at its end.

    Two programs may make the same folder: the first one to finish wins, and what the other made
    is dropped. A block that raises leaves nothing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        yield scratch
        # mkdtemp keeps other users out; a folder that is made the usual way does not.
        scratch.chmod(0o755)
        try:
            scratch.rename(path)
        except OSError:
            if not path.is_dir():
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
