"""What a job has logged, and counts, when it goes on from a checkpoint."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rldf_ray.train.trl_callbacks import CountOn, LogProgress
from rldf_ray.train.worker import log_step, read_progress

STEPS = 4
KNOWN = [
    {"loss": 4.0, "num_tokens": 10.0, "epoch": 0.5, "step": 1},
    {"loss": 2.0, "num_tokens": 25.0, "epoch": 1.0, "step": 2},
]
"""What the checkpoint of step 2 has of the log."""
SUMMARY = {
    "train_runtime": 1.0,
    "train_samples_per_second": 8.0,
    "train_steps_per_second": 2.0,
    "total_flos": 7.0,
    "train_loss": 1.5,
}


def state_at(step: int, log: list[dict[str, float]], first: bool = True) -> Any:
    return SimpleNamespace(
        is_world_process_zero=first, global_step=step, max_steps=STEPS, log_history=log
    )


def line(entry: dict[str, float]) -> dict[str, float]:
    figures = {name: value for name, value in entry.items() if name != "step"}
    return {"step": entry["step"], "steps": STEPS, **figures}


def goes_on(out: Path, step: int, log: list[dict[str, float]]) -> LogProgress:
    progress = LogProgress(str(out))
    progress.on_train_begin(None, state_at(step, log), None)
    return progress


def test_what_was_logged_after_a_checkpoint_goes_also_at_its_own_step(tmp_path: Path) -> None:
    """A pass is measured, and a job is summed up, after the checkpoint of its last step."""
    for entry in [*KNOWN, {"step": 2, "eval_loss": 1.0}, {"step": 3, "loss": 1.0}]:
        log_step(tmp_path, line(entry))
    goes_on(tmp_path, 2, KNOWN)
    assert read_progress(str(tmp_path)) == [line(entry) for entry in KNOWN]
    goes_on(tmp_path, 0, [])
    assert read_progress(str(tmp_path)) == []


def test_a_job_in_two_processes_is_summed_up_whole(tmp_path: Path) -> None:
    """Its loss is that of all its steps, and how long a process took is not how long it took."""
    rest = [{"loss": 1.0, "step": 3}, {"loss": 1.0, "step": 4}]
    progress = goes_on(tmp_path, 2, KNOWN)
    progress.on_log(None, state_at(4, [*KNOWN, *rest]), None, SUMMARY)
    last = read_progress(str(tmp_path))[-1]
    assert last == {"step": 4, "steps": 4, "total_flos": 7.0, "train_loss": 2.0}
    straight = goes_on(tmp_path, 0, [])
    straight.on_log(None, state_at(4, [*KNOWN, *rest]), None, SUMMARY)
    assert read_progress(str(tmp_path))[-1] == {"step": 4, "steps": 4, **SUMMARY}


@pytest.mark.parametrize(("log", "counted"), [(KNOWN, 25), ([], 0)])
def test_tokens_are_counted_on(log: list[dict[str, float]], counted: int) -> None:
    trainer = SimpleNamespace(_total_train_tokens=0)
    CountOn(trainer).on_train_begin(None, state_at(len(log), log), None)
    assert trainer._total_train_tokens == counted


@pytest.mark.parametrize("name", ["SFTTrainer", "RewardTrainer", "DPOTrainer", "KTOTrainer"])
def test_all_of_trls_trainers_count_tokens_there(name: str) -> None:
    import inspect

    import trl

    source = inspect.getsource(getattr(trl, name))
    assert "self._total_train_tokens +=" in source
    assert 'self._metrics[mode]["num_tokens"] = [self._total_train_tokens]' in source
