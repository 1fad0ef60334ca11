"""What whoever starts models has to know of a plan, be it a run's or a study's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from rldf_ray.plan.endpoint import Endpoint
from rldf_ray.plan.engines import EnginesSection
from rldf_ray.plan.speaker import Speaker


class SpeakingPlan(Protocol):
    """A plan whose parts are played by models."""

    @property
    def seed(self) -> int: ...

    @property
    def engines(self) -> EnginesSection: ...

    @property
    def endpoint(self) -> Endpoint: ...

    @property
    def chat_template_kwargs(self) -> dict[str, Any] | None: ...

    def speaker_of(self, part: Any) -> Speaker:
        """Who plays a part, by the plan's own name for it."""
        ...

    def speakers(self) -> tuple[Speaker, ...]:
        """The models that play the parts, each once."""
        ...

    def request_fields(self, speaker: Speaker) -> Mapping[str, Any]:
        """What the plan adds to all requests to a speaker."""
        ...


def speaks_here(plan: SpeakingPlan) -> bool:
    """Whether any of its models takes machines of ours: the others are endpoints'."""
    return any(speaker.local or speaker.on_engines for speaker in plan.speakers())
