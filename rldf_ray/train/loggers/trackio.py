"""A run of trackio (https://huggingface.co/docs/trackio), on this machine or in a Space."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from rldf_ray.train.loggers.logger import LoggedStage

PROJECT = "TRACKIO_PROJECT"


class Trackio:
    """The trackio run of a run folder, resumed by its name; its step is the row of the whole run.

    The project is that of the environment variable TRACKIO_PROJECT, or rldf.
    """

    def __init__(self, stage: LoggedStage) -> None:
        import trackio

        self._trackio, self._stage = trackio, stage
        self._run: Any = trackio.init(
            project=os.environ.get(PROJECT, "rldf"),
            name=f"{stage.plan.name}-{stage.run.id}",
            group=stage.plan.name,
            config=stage.plan.model_dump(mode="json"),
            resume="allow",
            embed=False,
        )
        # One above the last step that the run has, here or in its Space; nothing public has it.
        self.rows = max(0, self._run._next_step - stage.run.rows_before)

    def log(self, row: int, step: int, figures: Mapping[str, float]) -> None:
        self._run.log(
            self._stage.prefixed({"step": step, **figures}),
            step=self._stage.run.rows_before + row,
        )

    def close(self, *, failed: bool) -> None:
        self._trackio.finish()
