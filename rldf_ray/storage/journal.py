"""A journal of every model call of a run: appended, flushed, read back after a kill."""

from __future__ import annotations

import errno
import json
import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rldf_ray.storage.json_text import exact_json

log = logging.getLogger(__name__)

BROKEN = "the model is broken: did its training diverge, does engines.dtype hold its numbers?"


class Journal:
    """An append-only file of finished model calls, one JSON object a line, keyed by address.

    A line is on disk before its call counts as finished. A line torn by a kill was not finished:
    it is cut off when the journal is opened again. A line in the middle that cannot be read (a
    power failure's NULs, two lines in one) is skipped, and its call made again. Memory holds where
    a line begins, not what it says, and `forget` lets go of that as well.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        # The first part of an address (the debate's id) -> the rest -> where its line begins.
        self._places: dict[str, dict[str, int]] = {}
        self.path = path
        if path.exists():
            self._read()
        self._file = path.open("a+b", buffering=0)
        self._end = self._file.seek(0, os.SEEK_END)

    def _read(self) -> None:
        whole = 0
        unreadable = 0
        with self.path.open("rb") as lines:
            for line in lines:
                if not line.endswith(b"\n"):
                    break
                entry = _entry(line)
                if entry is None:
                    unreadable += 1
                else:
                    self._remember(entry["address"], whole)
                whole += len(line)
        if whole < self.path.stat().st_size:
            os.truncate(self.path, whole)
        if unreadable:
            log.warning(
                "%s: skipped %d of its lines, which cannot be read; their calls are made again",
                *(self.path, unreadable),
            )

    def _remember(self, address: str, place: int) -> None:
        scope, rest = _in_scope(address)
        self._places.setdefault(scope, {})[rest] = place

    def get(self, address: str) -> dict[str, Any] | None:
        scope, rest = _in_scope(address)
        place = self._places.get(scope, {}).get(rest)
        return None if place is None else self._line_at(place)

    def _line_at(self, place: int) -> dict[str, Any]:
        with self.path.open("rb") as lines:
            lines.seek(place)
            entry: dict[str, Any] = json.loads(lines.readline())
        return entry

    def entries(self) -> Iterator[dict[str, Any]]:
        """Everything in the file that can be read, in its order, one entry in memory at a time."""
        yield from entries_in(self.path)

    def forget(self, scope: str) -> None:
        """Nobody will ask again for addresses that begin with `scope`/; they stay in the file."""
        self._places.pop(scope, None)

    def append(self, address: str, entry: Mapping[str, Any]) -> None:
        """Remember a finished call.

        Raises:
            OSError: it could not be written whole; the file is then as it was before.
            NotFiniteError: a number in it is none; the file is as it was before.
        """
        line = {"address": address, **entry}
        what = f"the answer to the call {address}"
        text = exact_json(line, what, BROKEN, separators=(",", ":"))
        content = text.encode() + b"\n"
        try:
            if self._file.write(content) != len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._file.name)
        except OSError as error:
            # A torn line in the middle would swallow the next one and make the file unreadable.
            os.truncate(self._file.fileno(), self._end)
            error.filename = error.filename or self._file.name
            raise
        self._remember(address, self._end)
        self._end += len(content)

    def __len__(self) -> int:
        return sum(map(len, self._places.values()))

    def close(self) -> None:
        os.fsync(self._file.fileno())
        self._file.close()


def entries_in(path: Path) -> Iterator[dict[str, Any]]:
    """What can be read of a journal's file, in its order, one entry in memory at a time."""
    with path.open("rb") as lines:
        for line in lines:
            entry = _entry(line)
            if entry is not None:
                yield entry


def _entry(line: bytes) -> dict[str, Any] | None:
    """What a line says; None for one that is no call of any address."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) and isinstance(entry.get("address"), str) else None


def _in_scope(address: str) -> tuple[str, str]:
    """Its first part, and the rest with the slash: "a" and "a/" are two addresses."""
    scope, slash, rest = address.partition("/")
    return scope, slash + rest
