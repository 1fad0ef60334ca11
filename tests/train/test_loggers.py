"""Figures reach the loggers a plan names, once each."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

import pytest

from rldf_ray.engines.checks import PreflightError
from rldf_ray.preflight.checks import check_loggers
from rldf_ray.train.loggers import LOGGERS, open_loggers
from rldf_ray.train.loggers.logger import LoggedStage, TrackedRun
from rldf_ray.train.worker import PROGRESS, Follower, log_step
from tests.fakes import plan_with


class Remembers:
    def __init__(self) -> None:
        self.rows = 0
        self.seen: list[tuple[int, Mapping[str, float]]] = []

    def log(self, row: int, step: int, figures: Mapping[str, float]) -> None:
        self.seen.append((step, figures))

    def close(self, *, failed: bool) -> None: ...


def ppo_stage(folder: Path, *overrides: str) -> LoggedStage:
    return LoggedStage(plan=plan_with(*overrides), name="ppo", folder=folder, run=TrackedRun())


def test_every_line_is_logged_once_also_where_its_step_is_done_again(tmp_path: Path) -> None:
    logger = Remembers()
    told: list[tuple[int, int]] = []
    follower = Follower(str(tmp_path), lambda done, total: told.append((done, total)), [logger])
    log_step(tmp_path, {"step": 1, "steps": 3, "reward": 0.5})
    follower.look()
    follower.look()
    log_step(tmp_path, {"step": 2, "steps": 3, "reward": 0.7})
    follower.look()
    assert logger.seen == [(1, {"reward": 0.5}), (2, {"reward": 0.7})]
    assert told[-1] == (2, 3)
    # A worker was lost and goes on from the checkpoint of step 1.
    lines = (tmp_path / PROGRESS).read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / PROGRESS).write_text(lines[0], encoding="utf-8")
    follower.look()
    assert told[-1] == (1, 3)
    log_step(tmp_path, {"step": 2, "steps": 3, "reward": 0.7})
    log_step(tmp_path, {"step": 3, "steps": 3, "reward": 0.8})
    follower.look()
    assert logger.seen[2:] == [(3, {"reward": 0.8})]
    assert told[-1] == (3, 3)


def test_a_row_that_a_logger_did_not_take_is_offered_again_and_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Unreachable(Remembers):
        def log(self, row: int, step: int, figures: Mapping[str, float]) -> None:
            if step == 2 and len(attempts) < 2:
                attempts.append(step)
                raise ConnectionError("no route")
            super().log(row, step, figures)

    attempts: list[int] = []
    logger, other, told = Unreachable(), Remembers(), list[int]()
    follower = Follower(str(tmp_path), lambda done, total: told.append(done), [logger, other])
    for step in (1, 2, 3):
        log_step(tmp_path, {"step": step, "steps": 3, "reward": 0.5})
    follower.look()
    assert told == [3] and [step for step, _ in other.seen] == [1, 2, 3]
    follower.look()
    follower.look()
    assert [step for step, _ in logger.seen] == [1, 2, 3]
    assert caplog.text.count("did not take row 1") == 1 and "no route" in caplog.text


def test_a_logger_that_cannot_be_closed_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Gone(Remembers):
        def close(self, *, failed: bool) -> None:
            raise ConnectionError("the server went away")

    monkeypatch.setitem(LOGGERS, "tensorboard", lambda stage: Gone())
    with open_loggers(ppo_stage(tmp_path)) as loggers:
        assert len(loggers) == 1
    assert "the server went away" in caplog.text


def test_a_figure_that_is_no_number_is_null_in_the_file_and_reaches_no_logger(
    tmp_path: Path,
) -> None:
    logger = Remembers()
    follower = Follower(str(tmp_path), lambda done, total: None, [logger])
    log_step(tmp_path, {"step": 1, "steps": 1, "grad_norm": math.nan, "kl": math.inf, "loss": 0.5})
    follower.look()
    assert logger.seen == [(1, {"loss": 0.5})]
    line = json.loads((tmp_path / PROGRESS).read_text(encoding="utf-8"))
    assert line == {"step": 1, "steps": 1, "grad_norm": None, "kl": None, "loss": 0.5}


def test_tensorboard_shows_what_was_logged(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with open_loggers(ppo_stage(tmp_path)) as loggers:
        for step in (1, 2):
            loggers[0].log(step - 1, step, {"reward": step / 2})
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(e.step, e.value) for e in events.Scalars("ppo/reward")] == [(1, 0.5), (2, 1.0)]


def test_tensorboard_shows_each_step_of_a_resumed_job_once(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for steps in (3, 4):
        with open_loggers(ppo_stage(tmp_path)) as loggers:
            for step in range(1, steps + 1):
                loggers[0].log(step - 1, step, {"reward": step / 2})
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("ppo/reward")] == [1, 2, 3, 4]


def test_no_loggers_is_allowed(tmp_path: Path) -> None:
    with open_loggers(ppo_stage(tmp_path, "train.loggers=[]")) as loggers:
        assert loggers == []
    assert not (tmp_path / "tensorboard").exists()


def test_a_logger_that_is_not_installed_is_named_before_anything_starts() -> None:
    from importlib.util import find_spec

    missing = [name for name in ("wandb", "mlflow", "trackio") if find_spec(name) is None]
    if not missing:
        pytest.skip("all of them are installed")
    plan = plan_with(f"train.loggers={json.dumps(missing)}")
    with pytest.raises(PreflightError, match=rf"train.loggers: {missing[0]}.*pip install"):
        check_loggers(plan)
    assert check_loggers(plan_with()) == "tensorboard"
