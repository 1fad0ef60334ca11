"""RLDF whose debaters hear each other and are shown none of the referee's marks.

Its debates have all else: the same prompts, which speak of marks, the others' statements and one's
own earlier ones; the referee judges every round.
"""

from __future__ import annotations

from collections.abc import Sequence

from rldf_ray.comparison.method import Method, Training
from rldf_ray.comparison.plans import as_planned, renamed
from rldf_ray.plan import Plan

PLACE = 9
CONTROL = True
NEEDS = "marks are shown in a debate of debate.protocol=multirole with debate.show_marks alone"


def rows(plan: Plan, teachers: Sequence[str]) -> list[Method]:
    """One row; none where debaters are shown no marks anyway."""
    if plan.debate.protocol != "multirole" or not plan.debate.show_marks:
        return []
    source = renamed(as_planned(plan), f"{plan.name}-unmarked")
    debate = source.debate.model_copy(update={"show_marks": False})
    unmarked = source.model_copy(update={"debate": debate})
    return [Method("rldf_unmarked", "RLDF, no marks", Training(unmarked, "ppo"))]
