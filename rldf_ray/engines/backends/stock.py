"""The same code as `pine` with stock attention: its control, on the same weights and tokens."""

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
    check_model("stock", model)


@contextmanager
def start(speaker: Speaker, context: SpeakerContext) -> Iterator[ChatModel]:
    from rldf_ray.engines.plan_engines import position_invariant_engines

    with position_invariant_engines(speaker, context, invariant=False) as pool:
        yield pool
