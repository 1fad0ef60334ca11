"""No model at all: made-up sentences after a delay, to try a setup."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rldf_ray.plan.speaker import BackendFacts, Speaker

if TYPE_CHECKING:
    from rldf_ray.engines.backend import SpeakerContext
    from rldf_ray.models.base import ChatModel

FACTS = BackendFacts(form="SECONDS", paid=False, local=False, on_engines=True)


def check(model: str) -> None:
    number = model.isascii() and model.replace(".", "", 1).isdigit()
    if not number or not math.isfinite(float(model)):
        raise ValueError("after 'scripted:' come the seconds that an answer takes")


@contextmanager
def start(speaker: Speaker, context: SpeakerContext) -> Iterator[ChatModel]:
    from rldf_ray.engines.plan_engines import engine_pool
    from rldf_ray.engines.scripted_actor import ScriptedSettings

    section = context.plan.engines
    settings = ScriptedSettings(float(speaker.model), max_num_seqs=section.max_num_seqs)
    with engine_pool(
        context.plan, context.placement, settings, str(speaker), section.max_count
    ) as pool:
        context.wait_until_ready(pool)
        yield pool
