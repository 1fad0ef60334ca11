"""A run folder that is still being filled from given files says so, as long as that has not ended.

The stages that an import counts as finished are written one after another. Without the mark, a
folder that a kill left half-way would look like a run that goes on from the rows it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rldf_ray.storage.run_folder import RunFolder, RunFolderError

MARK = "import-unfinished.txt"
_TEXT = "`rldf data import` has begun this folder and has not ended: give the command again.\n"
# What an import writes, the plan first.
_WRITTEN = ("stages", "data", "plan.yaml")


def begun_before(folder: RunFolder) -> bool:
    """Whether the folder holds a run; what an unfinished import left is none."""
    return folder.fetched("plan.yaml").exists() and not folder.fetched(MARK).exists()


@contextmanager
def unfinished(folder: RunFolder) -> Iterator[None]:
    """Mark a folder that this program has locked, until the block has ended well.

    What an earlier import left unfinished is removed first.
    """
    folder.write_text(MARK, _TEXT)
    # Other machines have to see the mark before anything else of the folder.
    folder.shared(MARK)
    for name in _WRITTEN:
        folder.remove(name)
    yield
    folder.remove(MARK)


def check_finished(folder: RunFolder) -> None:
    """
    Raises:
        RunFolderError: an import into the folder has not ended.
    """
    if (folder.root / MARK).exists():
        raise RunFolderError(
            f"{folder.where} holds an import that has not ended: give its `rldf data import` again "
            "(it begins anew), or another folder"
        )
