"""MABRF with search: each rewriting rests on what was found in `evaluate.corpus`.

It begins with the steps, and the verdict on them, of the row without search, so that they are not
what the two differ in. Rewritings are drawn anew.
"""

from __future__ import annotations

from collections.abc import Sequence

from rldf_ray.comparison import rewriting
from rldf_ray.comparison.method import Method
from rldf_ray.comparison.rewriting import corpus_digest, thinking
from rldf_ray.comparison.thinking import Scene
from rldf_ray.plan import Plan

PLACE = 6
ON_REQUEST = True
FIRST = "mabrf"
"""The row whose first steps it has."""
NEEDS = "it searches texts: name them with --set evaluate.corpus=DIR"


def rows(plan: Plan, teachers: Sequence[str]) -> list[Method]:
    """One row, where the plan names texts."""
    corpus = plan.evaluate.corpus
    if corpus is None:
        return []
    return [
        Method(
            "mabrf_search",
            "MABRF, search",
            think=thinking(corpus),
            looks_up=corpus_digest(corpus),
            depends=depends,
            begins_as=FIRST,
        )
    ]


def depends(plan: Plan, seed: int, scenes: Sequence[Scene]) -> tuple[object, ...]:
    """As without search, and whose first steps they are."""
    return (*rewriting.depends(plan, seed, scenes), FIRST)
