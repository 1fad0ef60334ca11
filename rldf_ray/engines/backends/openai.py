"""Any OpenAI-compatible endpoint, at the plan's `endpoint.base_url`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rldf_ray.plan.speaker import BackendFacts, Speaker, check_model

if TYPE_CHECKING:
    from rldf_ray.engines.backend import SpeakerContext
    from rldf_ray.models.base import ChatModel

FACTS = BackendFacts(form="MODEL", paid=True, local=False, on_engines=False)


def check(model: str) -> None:
    check_model("openai", model)


@contextmanager
def start(speaker: Speaker, context: SpeakerContext) -> Iterator[ChatModel]:
    from rldf_ray.models.openai_http import OpenAIModel
    from rldf_ray.models.openai_left_out import LEFT_OUT

    endpoint = context.plan.endpoint
    left_out = context.folder.path(LEFT_OUT)
    yield OpenAIModel(speaker.model, endpoint, context.budget, left_out)
