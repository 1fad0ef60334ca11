"""FairThinking (Li et al. 2024) as we read it: a jury of roles deliberates, then the model answers.

The jurors are the identities of the bias type an item is about, as many as a debate has debaters.
They speak one after another, so that each reads those before; no referee scores them. Together they
fill half of what an engine reads at most, so that each of them finds room.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict

from rldf_ray.comparison.method import Method
from rldf_ray.comparison.thinking import Scene, Thinker, Thought, render, sampling_of
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
    return [Method("fair_thinking", "FairThinking", think=think, depends=depends)]


async def think(thinker: Thinker, scene: Scene) -> Thought:
    """The jurors' statements, and the question after them."""
    shown = {"context": scene.context, "question": scene.question, "options": scene.options}
    statements: list[tuple[str, str]] = []
    for seat, juror in enumerate(jurors(scene.group, thinker.plan)):
        turn = render("jury_turn", **shown, statements=statements, identity=juror)
        messages = (Message("system", render("jury_system")), Message("user", turn))
        said = await thinker.say(messages, scene, f"juror/{seat}", statement_tokens(thinker.plan))
        statements.append((juror.name, said))
    final = Message("user", render("jury_answer", **shown, statements=statements))
    return Thought("\n".join(f"{name}: {text}" for name, text in statements), (final,))


def depends(plan: Plan, seed: int, scenes: Sequence[Scene]) -> tuple[object, ...]:
    """The length of statements, and the jurors of every group: types of bias may be one's own."""
    groups = sorted({scene.group for scene in scenes})
    seated = [(group, [asdict(juror) for juror in jurors(group, plan)]) for group in groups]
    return (*sampling_of(plan, statement_tokens(plan)), seated)


def statement_tokens(plan: Plan) -> int:
    """The longest statement of a juror."""
    room = plan.engines.max_model_len // (2 * plan.debate.debaters)
    return min(plan.evaluate.thought_tokens, room)


def jurors(group: str, plan: Plan) -> list[Identity]:
    """Identities of the group's bias type, else of the plan's bias types in turn."""
    name = group.lower()
    try:
        types = [bias_type(type_name) for type_name in _TYPES.get(name, (name,))]
    except BiasTypeError:
        types = [bias_type(type_name) for type_name in plan.bias_types]
    in_turn = itertools.chain.from_iterable(zip(*(one.identities for one in types)))  # noqa: B905
    return list(in_turn)[: plan.debate.debaters]
