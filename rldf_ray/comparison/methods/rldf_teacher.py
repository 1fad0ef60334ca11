"""RLDF, teacher-student: a stronger model debates and referees. One row a teacher (Table 5).

A plan with a model for each seat is one row more, where no teacher is named.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from rldf_ray.comparison.method import Method, Training
from rldf_ray.comparison.plans import SEATS, as_planned, debating, own_teacher, titled
from rldf_ray.models.names import short_name
from rldf_ray.plan import Plan, PlanError, Speaker

PLACE = 11
NEEDS = "no teacher; give --teacher vllm:MODEL or openai:MODEL, or one in the plan"


def rows(plan: Plan, teachers: Sequence[str]) -> list[Method]:
    """A row for every teacher, the plan's own where none is named; none without any."""
    if plan.debate.seats is not None and not teachers:
        source = Training(as_planned(plan), "ppo")
        title = titled("RLDF, a model for each seat", plan)
        return [Method(f"rldf_teacher-{SEATS}", title, source)]
    own = own_teacher(plan)
    named = tuple(dict.fromkeys(teachers)) or (() if own is None else (own,))
    _check_slugs(named)
    alike = Counter(map(short, named))
    return [
        Method(
            f"rldf_teacher-{_slug(teacher)}",
            titled(
                f"RLDF teacher {short(teacher) if alike[short(teacher)] == 1 else teacher}", plan
            ),
            Training(debating(plan, teacher), "ppo"),
        )
        for teacher in named
    ]


def short(teacher: str) -> str:
    """A teacher's name without its backend and the folders above it."""
    return short_name(Speaker.parse(teacher).model)


def _check_slugs(teachers: Sequence[str]) -> None:
    """Files know a teacher by its slug."""
    first: dict[str, str] = {}
    for teacher in teachers:
        other = first.setdefault(_slug(teacher), teacher)
        if other != teacher:
            raise PlanError(
                f"--teacher {other} and {teacher}: files would call both {_slug(teacher)}; leave "
                "one out, or give it a name that differs in a letter, a digit, '.', '_' or '-'"
            )


def _slug(teacher: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", teacher).strip("-.")
