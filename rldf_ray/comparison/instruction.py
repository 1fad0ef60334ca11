"""The debaters' instruction, for rows without a debate."""

from __future__ import annotations

from rldf_ray.comparison.thinking import Scene
from rldf_ray.models.base import Message, seed_of
from rldf_ray.plan import Plan
from rldf_ray.protocols.multirole.layouts import system_prompt
from rldf_ray.topics.bias_type import bias_type
from rldf_ray.topics.unknown import two_wordings


def instruction(plan: Plan, seed: int, scene: Scene) -> Message:
    """The system prompt of debaters, word for word: on a scene, or on an opinion of a bias type.

    Which two ways to say "not known" it names is drawn by the scene's name, as a debate's are by
    its own.

    Args:
        seed: of the repeat.
    """
    if scene.is_opinion:
        table = bias_type(scene.group).identities
        return Message("system", system_prompt(table, plan.debate.examples, "opinion"))
    start = seed_of(seed, f"{scene.group}/{scene.name}/wording")
    unknown = two_wordings(plan.debate.unknown, start)
    return Message("system", system_prompt((), 0, "judgement", unknown))
