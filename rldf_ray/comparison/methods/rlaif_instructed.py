"""RLAIF whose answers are sampled under the debaters' system prompt: an instruction, no debate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from rldf_ray.comparison.method import Method, Training
from rldf_ray.comparison.methods.rlaif import Answerer, SampledAnswers, answerers_of
from rldf_ray.comparison.plans import renamed, sampling
from rldf_ray.models.base import ChatModel, Message
from rldf_ray.plan import Plan
from rldf_ray.protocols.multirole.debater import debaters_of
from rldf_ray.records import Debate
from rldf_ray.stages.debates import debates
from rldf_ray.stages.table import STAGES

PLACE = 8
CONTROL = True


def rows(plan: Plan, teachers: Sequence[str]) -> list[Method]:
    """One row."""
    source = renamed(sampling(plan), f"{plan.name}-rlaif-instructed")
    protocol = SampledAnswers(instructed_answerers_of)
    made = dict(STAGES) | {"debates": partial(debates, protocol=protocol)}
    title = "RLAIF, instructed"
    return [Method("rlaif_instructed", title, Training(source, "ppo", made))]


def instructed_answerers_of(
    debate: Debate, plan: Plan, models: Sequence[ChatModel]
) -> list[Answerer]:
    """As many as the debate would have debaters, each under the system prompt of one of them."""
    seated = zip(answerers_of(debate, plan, models), debaters_of(debate, plan, models), strict=True)
    return [
        replace(answerer, messages=(Message("system", debater.system), *answerer.messages))
        for answerer, debater in seated
    ]
