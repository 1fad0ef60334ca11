"""What every stage is handed. It reads what earlier ones wrote and writes its own objects, whole.

A stage is a function in a file of its own (table.py lists them); it returns what its manifest,
stages/NAME.json, is to record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rldf_ray.cluster.clock import Clock
from rldf_ray.cluster.placement import Placement
from rldf_ray.console import Progress
from rldf_ray.engines.plan_engines import policy_engines
from rldf_ray.engines.speakers import Speakers
from rldf_ray.errors import UserError
from rldf_ray.models.base import Usage
from rldf_ray.plan import Plan
from rldf_ray.storage.results import Result, Tokens
from rldf_ray.storage.run_folder import RunFolder


class StageError(UserError):
    """A stage cannot go on; the message says why and what to change."""


@dataclass(kw_only=True)
class Run:
    """What every stage is handed: plan, folder, placement, the terminal, and who speaks.

    `statements` is a file the referee is audited on instead of our own labelled set; `clock` counts
    what a stage's seconds go to, for the speakers as well.
    """

    plan: Plan
    folder: RunFolder
    placement: Placement
    progress: Progress
    run_id: str
    speakers: Speakers
    statements: Path | None = None
    clock: Clock = field(default_factory=Clock)

    @contextmanager
    def policy_engines(
        self,
        folder: str,
        revision: str,
        dtype: str,
        lora_rank: int = 0,
        tempered_logprobs: bool = False,
    ) -> Iterator[Any]:
        """The plan's vLLM engines on a model folder, which start while other work is done."""
        with policy_engines(
            self.plan,
            self.placement,
            self.progress,
            folder,
            revision,
            dtype,
            lora_rank,
            tempered_logprobs=tempered_logprobs,
        ) as pool:
            yield pool


StageFunction = Callable[[Run], Result]


def tokens_since(run: Run, before: tuple[Usage, Usage]) -> dict[str, Tokens]:
    """Tokens the speakers used since `before`, and those an endpoint charges for."""
    now = run.speakers.usage, run.speakers.paid_usage
    return {
        name: (used - then).numbers()
        for name, used, then in zip(("tokens", "paid_tokens"), now, before, strict=True)
    }
