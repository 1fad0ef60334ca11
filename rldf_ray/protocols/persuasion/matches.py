"""Who debates whom: each debater against itself, or every pair in both assignments."""

from __future__ import annotations

from itertools import product

from rldf_ray.protocols.persuasion.settings import PersuasionSettings


def matches(settings: PersuasionSettings) -> list[tuple[str, str]]:
    """Pairs of the debater of the correct side and that of the incorrect one."""
    names = list(settings.debaters)
    if settings.matches == "self":
        return [(name, name) for name in names]
    return list(product(names, names))
