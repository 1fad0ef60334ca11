"""A search that survives a kill: the same query of the same backend is made once."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any

from rldf_ray.search.backend import Hit, SearchBackend, encodable
from rldf_ray.storage.digest import digest
from rldf_ray.storage.journal import Journal


class JournaledSearch:
    """`backend`, remembering every search in `journal` under backend, corpus, query and k.

    Attributes:
        made: searches that were made.
    """

    def __init__(self, backend: SearchBackend, journal: Journal) -> None:
        self._backend, self._journal = backend, journal
        self._under_way: dict[str, asyncio.Task[tuple[Hit, ...]]] = {}
        self.made = 0

    @property
    def name(self) -> str:
        """The backend's."""
        return self._backend.name

    @property
    def digest(self) -> str:
        """The backend's."""
        return self._backend.digest

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """What the backend found; asked once, by however many at a time.

        Raises:
            SearchError: the search could not be made; it is not remembered.
        """
        query = encodable(query)
        address = search_address(self.name, self.digest, query, k)
        entry = self._journal.get(address)
        if entry is not None:
            return hits_of(entry)
        if address not in self._under_way:
            self._under_way[address] = asyncio.ensure_future(self._make(address, query, k))
        return await asyncio.shield(self._under_way[address])

    async def _make(self, address: str, query: str, k: int) -> tuple[Hit, ...]:
        try:
            hits = await self._backend.search(query, k)
            self.made += 1
            self._journal.append(
                address, {"query": query, "k": k, "hits": [asdict(hit) for hit in hits]}
            )
            return hits
        finally:
            del self._under_way[address]


def search_address(name: str, corpus: str, query: str, k: int) -> str:
    """Where a search is remembered."""
    return f"search {name} {corpus}/{digest(query, k)}"


def hits_of(entry: dict[str, Any]) -> tuple[Hit, ...]:
    """The hits of a journal's line."""
    return tuple(Hit(**hit) for hit in entry["hits"])
