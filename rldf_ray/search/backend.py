"""The seam of search: `none`, `local:CORPUS`, `ddgs` or `replay:JOURNAL`.

A backend returns titles, addresses and snippets. Nobody opens an address.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from typing import Protocol as Interface
from typing import cast

from rldf_ray.errors import UserError
from rldf_ray.search import backends


class SearchError(UserError):
    """A search could not be made; the message says where, why, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One result.

    Attributes:
        url: where it says it is from; it is shown, and never opened.
        score: higher is better; comparable within one search alone.
        source: the backend that found it.
    """

    title: str
    text: str
    url: str
    score: float
    source: str


def encodable(query: str) -> str:
    """The query with question marks for halves of surrogate pairs, which nothing can store."""
    return query.encode("utf-8", "replace").decode()


class SearchBackend(Interface):
    """Anything that can be searched."""

    @property
    def name(self) -> str:
        """What records call it."""
        ...

    @property
    def digest(self) -> str:
        """A hash of what it searches; empty where that cannot be known, as on the web."""
        ...

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """The `k` best hits at most, best first.

        Raises:
            SearchError: the search could not be made. Nothing is made up in its place.
        """
        ...


class _Module(Interface):
    """A module of `backends/`."""

    def opened(self, argument: str) -> SearchBackend: ...


def backend_names() -> list[str]:
    """The backends there are, found by being in their folder."""
    return sorted(module.name for module in pkgutil.iter_modules(backends.__path__))


def opened(what: str) -> SearchBackend:
    """The backend that a plan names: NAME, or NAME:ARGUMENT.

    Raises:
        SearchError: there is none, or it cannot be opened; says what is allowed.
    """
    name, _, argument = what.partition(":")
    if name not in backend_names():
        raise SearchError(
            f"{name!r} is no search; allowed: {', '.join(backend_names())}, as local:DIR_OR_FILE"
        )
    module = cast(_Module, importlib.import_module(f"{backends.__name__}.{name}"))
    return module.opened(argument)
