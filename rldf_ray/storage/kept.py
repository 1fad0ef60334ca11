"""A scratch file of what has ended, so that memory holds what is under way alone."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec


class Kept:
    """Values that are kept in any order and read in that of their places.

    Args:
        path: begun anew; after a kill the journal of calls makes it again.
        places: how many there will be.
    """

    def __init__(self, path: Path, places: int) -> None:
        self._file = path.open("w+b")
        self._places = array("q", [-1]) * places

    def keep(self, place: int, value: object) -> None:
        """Write down the value of a place."""
        self._places[place] = self._file.seek(0, 2)
        self._file.write(msgspec.json.encode(value) + b"\n")
        # For those who read along.
        self._file.flush()

    def values(self) -> Iterator[Any]:
        """All values, as JSON has them, by place; a place without one is left out."""
        for place in self._places:
            if place >= 0:
                self._file.seek(place)
                yield json.loads(self._file.readline())

    def close(self) -> None:
        """The file goes as well: what it held is in a table by then."""
        Path(self._file.name).unlink(missing_ok=True)
        self._file.close()
