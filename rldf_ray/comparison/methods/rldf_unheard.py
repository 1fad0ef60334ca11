"""RLDF in which nobody hears anybody: as many statements by the same debaters, and no debate.

A debater reads the topic alone in every round: neither the others' statements nor its own earlier
ones, and no marks. Its prompt is the debate's word for word, and speaks of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from rldf_ray.comparison.method import Method, Training
from rldf_ray.comparison.methods.rlaif import SampledAnswers
from rldf_ray.comparison.plans import as_planned, renamed
from rldf_ray.models.base import ChatModel, Completion
from rldf_ray.plan import Plan
from rldf_ray.protocols.multirole.debater import Debater, debaters_of
from rldf_ray.protocols.multirole.layouts import render
from rldf_ray.records import Debate, Identity, context_of
from rldf_ray.stages.debates import debates
from rldf_ray.stages.table import STAGES

PLACE = 9
CONTROL = True
NEEDS = "nobody is heard in a debate of debate.protocol=multirole alone"


def rows(plan: Plan, teachers: Sequence[str]) -> list[Method]:
    """One row; none where the data come from another protocol."""
    if plan.debate.protocol != "multirole":
        return []
    source = renamed(as_planned(plan), f"{plan.name}-unheard")
    made = dict(STAGES) | {"debates": partial(debates, protocol=SampledAnswers(unheard_of))}
    title = "RLDF, nobody heard"
    return [Method("rldf_unheard", title, Training(source, "ppo", made))]


@dataclass(frozen=True)
class Unheard:
    """A debater that is given the topic alone, whatever the round.

    Attributes:
        opening: the topic, as a discussion begins with it.
    """

    debater: Debater
    opening: str

    @property
    def identity(self) -> Identity:
        return self.debater.identity

    async def speak(self, discussion: str, number: int, address: str, affinity: str) -> Completion:
        """Its statement of round `number`; it sees nothing of `discussion`."""
        return await self.debater.speak(self.opening, number, address, affinity)


def unheard_of(debate: Debate, plan: Plan, models: Sequence[ChatModel]) -> list[Unheard]:
    """The debaters of an instance, none of whom hears another."""
    context = context_of(debate.topic, debate.clue_shown)
    opening = render("opening", topic=context.account, question=context.question)
    return [Unheard(debater, opening) for debater in debaters_of(debate, plan, models)]
