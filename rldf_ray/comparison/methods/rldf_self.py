"""RLDF, self-reflection: the model to be debiased plays every part of the debates."""

from __future__ import annotations

from collections.abc import Sequence

from rldf_ray.comparison.method import Method, Training
from rldf_ray.comparison.plans import debating, titled
from rldf_ray.plan import Plan

PLACE = 10


def rows(plan: Plan, teachers: Sequence[str]) -> list[Method]:
    """One row."""
    return [
        Method(
            "rldf_self",
            titled("RLDF self-reflection", plan),
            Training(debating(plan, None), "ppo"),
        )
    ]
