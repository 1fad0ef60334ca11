"""What a study searches: opened before anything is asked, and the same until it has ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rldf_ray.errors import UserError
from rldf_ray.protocols.study import Study, StudyTable
from rldf_ray.search.backend import SearchBackend, SearchError, opened

Searched = Mapping[str, Mapping[str, str]]
"""By the study's own names of them: what its plan says is searched, and the digest of that."""


def open_searches(study: Study, settings: Any) -> dict[str, SearchBackend]:
    """The backends that a study's `searches` names; most studies search nothing.

    Raises:
        SearchError: one cannot be opened; names the field of the plan.
    """
    backends = {}
    for name, what in _named(study, settings).items():
        try:
            backends[name] = opened(what)
        except UserError as error:
            raise SearchError(f"settings.searches.{name}: {error}") from error
    return backends


def searched_by(study: Study, settings: Any, backends: Mapping[str, SearchBackend]) -> Searched:
    """What `backends` search, for the study's folder."""
    named = _named(study, settings)
    return {
        name: {"search": named[name], "digest": backend.digest}
        for name, backend in backends.items()
    }


def changed_search(before: Searched, now: Searched) -> str | None:
    """What is wrong where a study goes on with other texts than it was begun with."""
    for name, held in before.items():
        digest = now.get(name, held)["digest"]
        if digest != held["digest"]:
            return (
                f"was begun on other texts: those at settings.searches.{name} have changed (digest "
                f"{held['digest']}, now {digest}); put them back, or give another --out"
            )
    return None


def searched_table(searched: Searched) -> StudyTable | None:
    """What was searched, by arm."""
    if not searched:
        return None
    return StudyTable(
        name="searched",
        title="What was searched",
        columns=["arm", "search", "digest of the texts"],
        rows=[
            [name, one["search"], one["digest"] or "unknown (the web)"]
            for name, one in searched.items()
        ],
    )


def _named(study: Study, settings: Any) -> Mapping[str, str]:
    named = getattr(study, "searches", None)
    return {} if named is None else named(settings)
