"""Callbacks of TRL's trainers: they report progress, go on counting, and do not reduce alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from transformers import TrainerCallback

from rldf_ray.plan import TrainSection
from rldf_ray.train.diverged import check_finite
from rldf_ray.train.worker import log_step, note_begun, rewrite_progress, skip_reduction

OF_ONE_PROCESS = ("train_runtime", "train_samples_per_second", "train_steps_per_second")
"""What TRL sums up of the time since the process began."""


class LogProgress(TrainerCallback):
    """Appends what a trainer logs to the job's progress file, from rank 0.

    Every rank ends the job at a step whose loss is no finite number, before it is saved.
    """

    def __init__(self, out: str) -> None:
        self._out, self._resumed = out, False

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """What a process before this one logged after its last checkpoint is done again."""
        self._resumed = state.global_step > 0
        if state.is_world_process_zero:
            entries = [_entry(logs["step"], state, logs) for logs in state.log_history]
            rewrite_progress(self._out, entries)
            note_begun(self._out)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if not logs:
            return
        if self._resumed and "train_loss" in logs:
            logs = of_whole_job(logs, state.log_history)
        entry = _entry(state.global_step, state, logs)
        if state.is_world_process_zero:
            log_step(self._out, entry)
        check_finite(Path(self._out).name, entry)


def _entry(step: int, state: Any, logs: Mapping[str, Any]) -> dict[str, Any]:
    figures = {k: v for k, v in logs.items() if isinstance(v, int | float) and k != "step"}
    return {"step": step, "steps": state.max_steps, **figures}


def of_whole_job(
    summary: Mapping[str, Any], history: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """A trainer's last line without what is of its last process alone, and with the loss of all.

    Args:
        history: all that was logged, of which every step's loss.
    """
    kept = {name: value for name, value in summary.items() if name not in OF_ONE_PROCESS}
    return {**kept, "train_loss": fmean(entry["loss"] for entry in history if "loss" in entry)}


class CountOn(TrainerCallback):
    """One of TRL's trainers goes on counting the tokens it has read where a checkpoint left off."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        for entry in state.log_history:
            if "num_tokens" in entry:
                self._trainer._total_train_tokens = int(entry["num_tokens"])


class SkipReduction(TrainerCallback):
    """`skip_reduction` for the DeepSpeed engine of one of TRL's trainers, once it has one."""

    def __init__(self, trainer: Any, train: TrainSection) -> None:
        self._trainer, self._train = trainer, train

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        skip_reduction(self._trainer.deepspeed, self._train)
