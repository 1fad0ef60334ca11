"""MABRF without search: steps, a judge, rewritings of what it finds biased, then the answer."""

from __future__ import annotations

from collections.abc import Sequence

from rldf_ray.comparison.method import Method
from rldf_ray.comparison.rewriting import depends, thinking
from rldf_ray.plan import Plan

PLACE = 5
ON_REQUEST = True


def rows(plan: Plan, teachers: Sequence[str]) -> list[Method]:
    """One row."""
    return [Method("mabrf", "MABRF", think=thinking(None), depends=depends)]
