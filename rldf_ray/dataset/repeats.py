"""Which rows say what an earlier one says: by hashes, as the rows themselves would not fit."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Repeat = Literal["duplicate", "contradicting"]

_BYTES = 16
"""Of a hash: two of a million different rows share one with a chance of one in 10^26."""


class Hashes:
    """A hash of each of many rows."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, *parts: object) -> None:
        text = repr(parts).encode(errors="surrogatepass")
        self._bytes += hashlib.blake2b(text, digest_size=_BYTES).digest()

    def groups(self) -> NDArray[np.int64]:
        """For each row the place of the first row that is equal to it."""
        halves = np.frombuffer(bytes(self._bytes), dtype=np.uint64).reshape(-1, 2)
        # Stable, so that the first of equal rows comes first.
        order = np.lexsort((halves[:, 1], halves[:, 0]))
        begins = np.ones(len(order), dtype=bool)
        begins[1:] = (halves[order[1:]] != halves[order[:-1]]).any(axis=1)
        firsts = np.empty(len(order), dtype=np.int64)
        firsts[order] = order[begins][np.cumsum(begins) - 1]
        return firsts


class Repeats:
    """Counts rows that repeat an earlier one: what is said, and what is said of it.

    Two rows with the same text and the same score are duplicates; with the same text and another
    score they contradict each other.
    """

    def __init__(self) -> None:
        self._texts = Hashes()
        self._rows = Hashes()

    def add(self, text: object, said_of_it: object) -> None:
        self._texts.add(text)
        self._rows.add(text, said_of_it)

    def counts(self) -> Mapping[Repeat, int]:
        """duplicate: rows that say what an earlier one says, and the same of it.

        contradicting: rows that say what an earlier one says, and for the first time this of it.
        """
        rows, texts = (len(np.unique(hashes.groups())) for hashes in (self._rows, self._texts))
        all_rows = len(self._rows.groups())
        counts: dict[Any, int] = {"duplicate": all_rows - rows, "contradicting": rows - texts}
        return {name: number for name, number in counts.items() if number}
