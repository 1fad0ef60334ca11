"""What a protocol searches: the backends that its settings name, opened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rldf_ray.errors import UserError
from rldf_ray.protocols.study import Study
from rldf_ray.search.backend import SearchBackend, SearchError, opened


def named_searches(study: Study, settings: Any) -> Mapping[str, str]:
    """What is searched, by the study's own names; most studies search nothing."""
    named = getattr(study, "searches", None)
    return {} if named is None else named(settings)


def open_searches(
    study: Study, settings: Any, field: str = "settings.searches"
) -> dict[str, SearchBackend]:
    """The backends that a study's `searches` names.

    Args:
        field: of the plan, which has them by their names.

    Raises:
        SearchError: one cannot be opened; names the field of the plan.
    """
    backends = {}
    for name, what in named_searches(study, settings).items():
        try:
            backends[name] = opened(what)
        except UserError as error:
            raise SearchError(f"{field}.{name}: {error}") from error
    return backends
