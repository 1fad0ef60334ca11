"""FairThinking (Li et al. 2024) as we read it: a jury of roles deliberates, then the model answers.

The jurors are the identities of the bias type an item is about, as many as a debate has debaters.
They speak one after another, so that each reads those before; no referee scores them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from rldf_ray.comparison.method import Method
from rldf_ray.comparison.thinking import Scene, Thinker, Thought, render
from rldf_ray.models.base import Message
from rldf_ray.plan import Plan
from rldf_ray.records import Identity
from rldf_ray.topics.bias_type import BiasTypeError, bias_type

PLACE = 4

# BBQ's categories that are called otherwise here, or are about two things at once.
_TYPES = {
    "ses": ("socioeconomic_status",),
    "race_x_gender": ("race_ethnicity", "gender_identity"),
    "race_x_ses": ("race_ethnicity", "socioeconomic_status"),
}


def rows(plan: Plan, teachers: Sequence[str]) -> list[Method]:
    """One row."""
    return [Method("fair_thinking", "FairThinking", think=think)]


async def think(thinker: Thinker, scene: Scene) -> Thought:
    """The jurors' statements, and the question after them."""
    shown = {"context": scene.context, "question": scene.question, "options": scene.options}
    statements: list[tuple[str, str]] = []
    for seat, juror in enumerate(jurors(scene.group, thinker.plan)):
        turn = render("jury_turn", **shown, statements=statements, identity=juror)
        messages = (Message("system", render("jury_system")), Message("user", turn))
        statements.append((juror.name, await thinker.say(messages, scene, f"juror/{seat}")))
    final = Message("user", render("jury_answer", **shown, statements=statements))
    return Thought("\n".join(f"{name}: {text}" for name, text in statements), (final,))


def jurors(group: str, plan: Plan) -> list[Identity]:
    """Identities of the group's bias type, else of the plan's bias types in turn."""
    name = group.lower()
    try:
        types = [bias_type(type_name) for type_name in _TYPES.get(name, (name,))]
    except BiasTypeError:
        types = [bias_type(type_name) for type_name in plan.bias_types]
    in_turn = itertools.chain.from_iterable(zip(*(one.identities for one in types)))  # noqa: B905
    return list(in_turn)[: plan.debate.debaters]
