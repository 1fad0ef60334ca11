"""DPO in the place of reward model and PPO: the debates, pairs and pi_SFT are RLDF's own."""

from __future__ import annotations

from collections.abc import Sequence

from rldf_ray.comparison.method import Method, Training
from rldf_ray.comparison.plans import as_planned, titled
from rldf_ray.plan import Plan

PLACE = 12
ON_REQUEST = True


def rows(plan: Plan, teachers: Sequence[str]) -> list[Method]:
    """One row."""
    title = titled("DPO on RLDF's pairs", plan, "DPO on its pairs")
    return [Method("dpo", title, Training(as_planned(plan), "dpo"))]
