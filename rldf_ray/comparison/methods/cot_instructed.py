"""Chain of thought under the debaters' instruction, in both of its turns."""

from __future__ import annotations

from collections.abc import Sequence

from rldf_ray.comparison.instruction import instruction
from rldf_ray.comparison.method import Method
from rldf_ray.comparison.methods import cot
from rldf_ray.comparison.thinking import Scene, Thinker, Thought, as_said
from rldf_ray.plan import Plan

PLACE = 3
CONTROL = True


def rows(plan: Plan, teachers: Sequence[str]) -> list[Method]:
    """One row."""
    return [Method("cot_instructed", "CoT, instructed", think=think, depends=depends)]


async def think(thinker: Thinker, scene: Scene) -> Thought:
    """As without the instruction, which stands before both turns."""
    return await cot.think(thinker, scene, (instruction(thinker.plan, thinker.seed, scene),))


def depends(plan: Plan, seed: int, scenes: Sequence[Scene]) -> tuple[object, ...]:
    """The instructions, too: word for word, as prompts may be the plan's own."""
    given = [instruction(plan, seed, scene).content for scene in scenes]
    return (*as_said(plan, seed, scenes), given)
