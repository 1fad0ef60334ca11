"""Callbacks of TRL's trainers: they report progress, and do not reduce alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from rldf_ray.plan import TrainSection
from rldf_ray.train.checkpoint import rewind
from rldf_ray.train.diverged import check_finite
from rldf_ray.train.worker import PROGRESS, log_step, note_begun, skip_reduction


class LogProgress(TrainerCallback):
    """Appends what a trainer logs to the job's progress file, from rank 0.

    Every rank ends the job at a step whose loss is no finite number, before it is saved.
    """

    def __init__(self, out: str) -> None:
        self._out = out

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """What a process before this one logged after its last checkpoint is done again."""
        if state.is_world_process_zero:
            rewind([Path(self._out) / PROGRESS], state.global_step)
            note_begun(self._out)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if not logs:
            return
        figures = {k: v for k, v in logs.items() if isinstance(v, int | float)}
        entry = {"step": state.global_step, "steps": state.max_steps, **figures}
        if state.is_world_process_zero:
            log_step(self._out, entry)
        check_finite(Path(self._out).name, entry)


class SkipReduction(TrainerCallback):
    """`skip_reduction` for the DeepSpeed engine of one of TRL's trainers, once it has one."""

    def __init__(self, trainer: Any, train: TrainSection) -> None:
        self._trainer, self._train = trainer, train

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        skip_reduction(self._trainer.deepspeed, self._train)
