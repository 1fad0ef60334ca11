"""New weights for engines that are on other nodes than the folder they are in: sent through Ray."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rldf_ray.cluster.shared_memory import passing_folder, places, remove_left_behind

Files = Mapping[str, npt.NDArray[np.uint8]]


@dataclass(frozen=True)
class Sent:
    """The files of a folder, for those who cannot read it.

    Attributes:
        node: Ray's id of the node whose processes read the folder itself.
        files: a Ray reference to `Files`; in a tuple, as one by itself would be fetched by an actor
            on that node, too.
    """

    node: str
    files: tuple[Any]


def this_node() -> str:
    """Ray's id of the node that this process is on."""
    import ray

    node: str = ray.get_runtime_context().get_node_id()
    return node


def send(folder: Path) -> Sent:
    """The folder's files as they are now."""
    import ray

    files = {
        # A view of the file's pages: Ray copies them, and nobody else has to.
        file.name: np.asarray(np.memmap(file, np.uint8, "r"))
        for file in sorted(folder.iterdir())
        if file.stat().st_size
    }
    return Sent(this_node(), (ray.put(files),))


class Received:
    """An engine's own copy of what it was sent last."""

    def __init__(self) -> None:
        self._opened = ExitStack()
        self._folder: Path | None = None

    def folder(self, files: Files) -> Path:
        """Where the files are now, over the pages of those before.

        Raises:
            NoRoomError: this machine has no room for them.
        """
        if self._folder is None:
            for place in places():
                remove_left_behind(place)
            size = sum(content.nbytes for content in files.values())
            self._folder = passing_folder(size, self._opened)
        for name, content in files.items():
            path = self._folder / name
            known = path.exists() and path.stat().st_size == content.nbytes
            with path.open("r+b" if known else "wb") as file:
                file.write(content.data)
        return self._folder

    def close(self) -> None:
        self._opened.close()
