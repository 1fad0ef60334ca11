"""Keeps the pass over the data after which the loss on held-out examples is lowest."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from rldf_ray.train.lora import begin_as, save_trained

LOSS = "eval_loss"
BEST = "trainer/best-pass"


class KeepBestPass(TrainerCallback):
    """Saves what a trainer has learned whenever its held-out loss is the lowest so far.

    The trainer evaluates after every pass. Its log goes on where a checkpoint left off, so a job
    that was cut off knows the passes before.
    """

    def __init__(self, trainer: Any, out: Path) -> None:
        self._trainer, self._out = trainer, out

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """A collective: all workers have the same log."""
        if best_pass(state.log_history) == len(losses(state.log_history)):
            self._trainer.save_model(str(self._out / BEST))


def losses(history: Sequence[Mapping[str, Any]]) -> list[float]:
    """The held-out losses of a training's log, a pass each."""
    return [float(entry[LOSS]) for entry in history if LOSS in entry]


def best_pass(history: Sequence[Mapping[str, Any]]) -> int | None:
    """The first pass with the lowest held-out loss, from 1; None where none was measured."""
    measured = losses(history)
    return measured.index(min(measured)) + 1 if measured else None


def save_best(trainer: Any, tokenizer: Any, out: Path) -> None:
    """`save_trained` of the best pass, which `KeepBestPass` has saved."""
    from peft import PeftModel

    best = out / BEST
    if isinstance(trainer.accelerator.unwrap_model(trainer.model), PeftModel):
        # Workers of other machines have not the folder, and save nothing.
        if trainer.is_world_process_zero():
            begin_as(trainer.model, best)
        save_trained(trainer, tokenizer, out)
    elif trainer.is_world_process_zero():
        shutil.copytree(best, out / "model", dirs_exist_ok=True)
