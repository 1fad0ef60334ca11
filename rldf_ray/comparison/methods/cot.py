"""Zero-shot chain of thought (Kojima et al. 2022): the model reasons first, then answers."""

from __future__ import annotations

from collections.abc import Sequence

from rldf_ray.comparison.method import Method
from rldf_ray.comparison.thinking import Scene, Thinker, Thought, render
from rldf_ray.models.base import Message
from rldf_ray.plan import Plan

PLACE = 2


def rows(plan: Plan, teachers: Sequence[str]) -> list[Method]:
    """One row."""
    return [Method("cot", "CoT", think=think)]


async def think(thinker: Thinker, scene: Scene, before: Sequence[Message] = ()) -> Thought:
    """Reasoning as the model's own turn, and the question once more.

    Args:
        before: messages that the conversation begins with.
    """
    shown = {"question": scene.question, "options": scene.options}
    question = Message("user", render("cot_think", context=scene.context, **shown))
    reasoning = await thinker.say((*before, question), scene, "reasoning")
    again = Message("user", render("answer_after", **shown))
    return Thought(reasoning, (*before, question, Message("assistant", reasoning), again))
