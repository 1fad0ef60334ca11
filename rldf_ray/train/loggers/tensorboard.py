"""Event files for `tensorboard --logdir RUN`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rldf_ray.train.loggers.logger import LoggedStage


class TensorBoard:
    """Event files in the stage's folder; those of a resumed job take the place of earlier ones."""

    def __init__(self, stage: LoggedStage) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.rows = 0
        self._stage = stage
        # All rows are written again, and TensorBoard hides what earlier files have from step 0 on.
        self._writer: Any = SummaryWriter(str(stage.folder / "tensorboard"), purge_step=0)

    def log(self, row: int, step: int, figures: Mapping[str, float]) -> None:
        for name, value in self._stage.prefixed(figures).items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self, *, failed: bool) -> None:
        self._writer.close()
