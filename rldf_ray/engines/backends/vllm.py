"""vLLM engines in Ray actors, as many as the plan's `engines.count`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rldf_ray.plan.speaker import BackendFacts, Speaker, check_model

if TYPE_CHECKING:
    from rldf_ray.engines.backend import SpeakerContext
    from rldf_ray.models.base import ChatModel

FACTS = BackendFacts(form="MODEL", paid=False, local=True, on_engines=True)


def check(model: str) -> None:
    check_model("vllm", model)


@contextmanager
def start(speaker: Speaker, context: SpeakerContext) -> Iterator[ChatModel]:
    from rldf_ray.engines.plan_engines import at_once, policy_engines

    plan = context.plan
    with policy_engines(
        plan,
        at_once(plan, context.placement, context.alone),
        context.progress,
        speaker.model,
        "base",
        plan.engines.dtype,
        most=plan.engines.max_count,
    ) as pool:
        context.wait_until_ready(pool)
        yield pool
