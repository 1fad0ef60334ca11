"""SFT alone: stage one of RLDF in the plan's own mode (the paper describes it no further)."""

from __future__ import annotations

from collections.abc import Sequence

from rldf_ray.comparison.method import Method, Training
from rldf_ray.comparison.plans import as_planned, titled
from rldf_ray.plan import Plan

PLACE = 5


def rows(plan: Plan, teachers: Sequence[str]) -> list[Method]:
    """One row."""
    return [Method("sft", titled("SFT", plan), Training(as_planned(plan), "sft"))]
