"""What a study searches: the same texts until it has ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rldf_ray.protocols.searches import named_searches
from rldf_ray.protocols.study import Study, StudyTable
from rldf_ray.search.backend import SearchBackend

Searched = Mapping[str, Mapping[str, str]]
"""By the study's own names of them: what its plan says is searched, and the digest of that."""


def searched_by(study: Study, settings: Any, backends: Mapping[str, SearchBackend]) -> Searched:
    """What `backends` search, for the study's folder."""
    named = named_searches(study, settings)
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
