"""What is given to Ray Train, and what is kept from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldf_ray.cluster.placement import Resources, place
from rldf_ray.plan import load_plan
from rldf_ray.train.ray_trainer import CLEANER, ray_trainer
from rldf_ray.train.worker import TrainJob


def test_nothing_ends_the_workers_of_a_controller_that_is_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_TRAIN_V2_ENABLED", "1")
    plan = load_plan("smoke")
    job = TrainJob(plan, place(plan, Resources(2, 0, 16)), {"out": str(tmp_path)})
    trainer = ray_trainer(lambda config: None, job, name="ray_train", progress="progress.jsonl")
    names = [type(callback).__name__ for callback in trainer._create_default_callbacks()]
    given = type(trainer)._create_default_callbacks(trainer)
    assert names == [type(c).__name__ for c in given if type(c).__name__ != CLEANER]
    assert len(names) == len(given) - 1
