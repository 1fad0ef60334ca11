"""Searches that were made before: `replay:JOURNAL`, with what any backend found then.

A run on the web is repeated offline with it. A query that is not there is an error, not nothing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rldf_ray.search.backend import Hit, SearchBackend, SearchError, encodable
from rldf_ray.search.journaled import hits_of
from rldf_ray.storage.digest import digest
from rldf_ray.storage.home_path import home_path


class _Replay:
    name = "replay"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: dict[tuple[str, int], tuple[Hit, ...]] = {}
        with path.open("rb") as lines:
            for number, entry in enumerate(map(_search, lines), start=1):
                if entry is None:
                    continue
                try:
                    place, hits = (entry["query"], entry["k"]), hits_of(entry)
                    known = self._found.setdefault(place, hits)
                except (KeyError, TypeError) as error:
                    raise SearchError(
                        f"replay:{path}, line {number}: a search without query, k or hits "
                        f"({error}); name a journal/calls.jsonl that a study wrote"
                    ) from error
                if known != hits:
                    raise SearchError(
                        f"replay:{path}: the journal has two answers to {place[0][:80]!r}, "
                        "as its arms searched different texts; replay a run with one arm that "
                        "searches"
                    )
        if not self._found:
            raise SearchError(f"replay:{path}: the journal has no search")

    @property
    def digest(self) -> str:
        """Of everything that was found."""
        return digest(*sorted(map(str, self._found.items())))

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """What was found then.

        Raises:
            SearchError: the journal has no such search.
        """
        try:
            return self._found[encodable(query), k]
        except KeyError:
            raise SearchError(
                f"{self._path}: the journal has no search for {query[:80]!r} (k = {k}); replay a "
                "run with the same plan, seed and models"
            ) from None


def opened(argument: str) -> SearchBackend:
    """The searches of a journal.

    Raises:
        SearchError: there is no such journal, or it has none.
    """
    path = home_path(argument)
    if not argument or not path.is_file():
        raise SearchError(f"replay:{argument}: no such file; name a journal/calls.jsonl")
    return _Replay(path)


def _search(line: bytes) -> dict[str, Any] | None:
    """A journal's line where it is a search; one that a kill has torn is none, as in a journal."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or not str(entry.get("address", "")).startswith("search "):
        return None
    return entry
