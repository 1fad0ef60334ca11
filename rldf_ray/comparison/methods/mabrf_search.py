"""MABRF with search: each rewriting rests on what was found in `evaluate.corpus`."""

from __future__ import annotations

from collections.abc import Sequence

from rldf_ray.comparison.method import Method
from rldf_ray.comparison.rewriting import corpus_digest, depends, thinking
from rldf_ray.plan import Plan

PLACE = 6
ON_REQUEST = True
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
        )
    ]
