"""The model as it is, under the debaters' instruction: what a prompt alone does."""

from __future__ import annotations

from collections.abc import Sequence

from rldf_ray.comparison.instruction import instruction
from rldf_ray.comparison.method import Method
from rldf_ray.plan import Plan

PLACE = 1


def rows(plan: Plan, teachers: Sequence[str]) -> list[Method]:
    """One row."""
    return [Method("instructed", "Instructed", instruct=instruction)]
