"""The model as it is."""

from __future__ import annotations

from collections.abc import Sequence

from rldf_ray.comparison.method import Method
from rldf_ray.plan import Plan

PLACE = 0


def rows(plan: Plan, teachers: Sequence[str]) -> list[Method]:
    """One row."""
    return [Method("default", "Default")]
