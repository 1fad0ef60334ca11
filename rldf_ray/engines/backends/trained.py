"""The referee that the run fits from a model: `referee.kind=trained` names it, no field does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rldf_ray.plan.speaker import BackendFacts, Speaker, check_model

if TYPE_CHECKING:
    from rldf_ray.engines.backend import SpeakerContext
    from rldf_ray.models.base import ChatModel

FACTS = BackendFacts(form="MODEL", paid=False, local=True, on_engines=False, named_in_plans=False)


def check(model: str) -> None:
    check_model("trained", model)


@contextmanager
def start(speaker: Speaker, context: SpeakerContext) -> Iterator[ChatModel]:
    from rldf_ray.engines.plan_engines import fitted_referee
    from rldf_ray.plan import Plan

    assert isinstance(context.plan, Plan), "a run fits it, and nothing else names it"
    with fitted_referee(context.plan, context.placement, context.folder) as pool:
        context.wait_until_ready(pool)
        yield pool
