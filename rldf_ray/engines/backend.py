"""What a backend is given and what it has to have; the backends lie in `backends/`."""

from __future__ import annotations

import importlib
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, cast

from rldf_ray.cluster.clock import Clock
from rldf_ray.cluster.placement import Placement
from rldf_ray.console import Progress
from rldf_ray.models.base import ChatModel
from rldf_ray.models.limits import Budget
from rldf_ray.plan.speaker import BACKENDS, BackendFacts, Speaker
from rldf_ray.plan.speaking import SpeakingPlan
from rldf_ray.storage.journal import Journal
from rldf_ray.storage.run_folder import RunFolder

if TYPE_CHECKING:
    from rldf_ray.engines.pool import EnginePool


@dataclass(frozen=True, kw_only=True)
class SpeakerContext:
    """The run in which a speaker is started.

    Attributes:
        budget: what all its models at the endpoint may still spend together.
        alone: no other local model is loaded, so that all cores are its own.
        clock: counts the wait for engines.
    """

    plan: SpeakingPlan
    folder: RunFolder
    placement: Placement
    progress: Progress
    journal: Journal
    budget: Budget
    alone: bool = False
    clock: Clock = field(default_factory=Clock)
    began: float = field(default_factory=time.monotonic)

    def wait_until_ready(self, pool: EnginePool) -> None:
        with self.clock.starting():
            pool.wait_until_ready()
        self.progress.say(f"  engines up in {time.monotonic() - self.began:.0f} s")


class Backend(Protocol):
    """A module in `backends/`."""

    FACTS: BackendFacts

    def check(self, model: str) -> None: ...

    def start(
        self, speaker: Speaker, context: SpeakerContext
    ) -> AbstractContextManager[ChatModel]: ...


def backend_of(speaker: Speaker) -> Backend:
    return cast(Backend, importlib.import_module(f"{BACKENDS}.{speaker.backend}"))
