"""What a logger is, and what it is handed of the run and the stage whose figures it takes."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from rldf_ray.plan import Plan


@dataclass(frozen=True, kw_only=True)
class TrackedRun:
    """A run as experiment trackers know it.

    Attributes:
        id: the same in all stages of a run folder, which keeps it; a new one where nobody does.
        rows_before: rows of the stages that had finished when this one was begun.
    """

    id: str = field(default_factory=lambda: secrets.token_hex(8))
    rows_before: int = 0


@dataclass(frozen=True, kw_only=True)
class LoggedStage:
    """A training stage whose figures are logged.

    Attributes:
        name: goes before the name of every figure.
        folder: the stage's own, on the driver's machine.
    """

    plan: Plan
    name: str
    folder: Path
    run: TrackedRun

    def prefixed(self, figures: Mapping[str, float]) -> dict[str, float]:
        return {f"{self.name}/{name}": value for name, value in figures.items()}


class Logger(Protocol):
    """Takes the lines of a stage's progress.jsonl; a line is a row, numbered from 0.

    Attributes:
        rows: how many rows of the stage it has; later ones are logged, in their order. Where it
            has some of them from before a kill, they are not logged again.
    """

    rows: int

    def log(self, row: int, step: int, figures: Mapping[str, float]) -> None:
        """Take a row: the step of training that it is of, and its figures."""
        ...

    def close(self, *, failed: bool) -> None:
        """Nothing more will come of this stage."""
        ...
