"""Keeps the pass over the data after which the loss on held-out examples is lowest."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from rldf_ray.storage.folders import visible
from rldf_ray.train.diverged import check_finite
from rldf_ray.train.lora import begin_as, save_trained
from rldf_ray.train.shards import TRAINER

LOSS = "eval_loss"
PASS = "pass-"


class KeepBestPass(TrainerCallback):
    """Saves what a trainer has learned whenever its held-out loss is the lowest so far.

    The trainer evaluates after every pass. Its log goes on where a checkpoint left off, so a job
    that was cut off knows the passes before, and their folders stay until a checkpoint knows of a
    better one.
    """

    def __init__(self, trainer: Any, out: Path) -> None:
        self._trainer, self._out = trainer, out

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The checkpoint at the end of a pass is written before the pass is measured."""
        best = best_pass(state.log_history)
        if best is not None and state.is_world_process_zero:
            _take_over(self._out, best)
        done = state.epoch or 0
        if done and done == int(done) and int(done) not in losses(state.log_history):
            self._trainer.evaluate()

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: Any = None, **kwargs: Any
    ) -> None:
        """A collective: all workers have the same log.

        Raises:
            DivergedError: the loss is no finite number.
        """
        check_finite(self._out.name, {"step": state.global_step, "loss": metrics[LOSS]})
        number = round(state.epoch)
        if best_pass(state.log_history) == number:
            self._trainer.save_model(str(folder_of(self._out, number)))
        if args.save_strategy == "no":
            self._drop_others(state)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._drop_others(state)

    def _drop_others(self, state: Any) -> None:
        best = best_pass(state.log_history)
        if best is not None and state.is_world_process_zero:
            for folder in visible(self._out / TRAINER, f"{PASS}*"):
                if folder != folder_of(self._out, best):
                    shutil.rmtree(folder)


def _take_over(out: Path, best: int) -> None:
    """Where an earlier version saved the best pass, whichever that was: under the pass's name."""
    before = out / TRAINER / "best-pass"
    if before.exists() and not folder_of(out, best).exists():
        before.rename(folder_of(out, best))


def folder_of(out: Path, number: int) -> Path:
    """Where a pass is saved, counted from 1."""
    return out / TRAINER / f"{PASS}{number}"


def losses(history: Sequence[Mapping[str, Any]]) -> dict[int, float]:
    """The held-out losses of a training's log by their passes, counted from 1."""
    return {round(entry["epoch"]): float(entry[LOSS]) for entry in history if LOSS in entry}


def best_pass(history: Sequence[Mapping[str, Any]]) -> int | None:
    """The first pass with the lowest held-out loss, from 1; None where none was measured."""
    measured = losses(history)
    return min(sorted(measured), key=measured.__getitem__, default=None)


def save_best(trainer: Any, tokenizer: Any, out: Path) -> None:
    """`save_trained` of the best pass, which `KeepBestPass` has saved."""
    from peft import PeftModel

    number = best_pass(trainer.state.log_history)
    assert number is not None
    best = folder_of(out, number)
    if isinstance(trainer.accelerator.unwrap_model(trainer.model), PeftModel):
        # Workers of other machines have not the folder, and save nothing.
        if trainer.is_world_process_zero():
            begin_as(trainer.model, best)
        save_trained(trainer, tokenizer, out)
    elif trainer.is_world_process_zero():
        shutil.copytree(best, out / "model", dirs_exist_ok=True)
