"""A Llama, Qwen2 or Qwen3 model that reads documents as a set (`models/position_invariant.py`)."""

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
    check_model("pine", model)


@contextmanager
def start(speaker: Speaker, context: SpeakerContext) -> Iterator[ChatModel]:
    from rldf_ray.engines.plan_engines import position_invariant_engines

    with position_invariant_engines(speaker, context, invariant=True) as pool:
        yield pool
