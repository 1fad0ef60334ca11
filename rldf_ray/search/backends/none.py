"""Finds nothing: the arm against which search is measured."""

from __future__ import annotations

from rldf_ray.search.backend import Hit, SearchBackend


class _Nothing:
    name, digest = "none", "none"

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """Nothing."""
        return ()


def opened(argument: str) -> SearchBackend:
    """The backend; it takes no argument."""
    return _Nothing()
