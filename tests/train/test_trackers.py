"""A run folder is one run of an experiment tracker, whatever ends its processes, and when."""

from __future__ import annotations

import inspect
import json
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rldf_ray.plan import Plan
from rldf_ray.stages.order import forget
from rldf_ray.stages.run import Run
from rldf_ray.stages.training import TRACKING, tracked_run
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.train.loggers import LOGGERS, open_loggers
from rldf_ray.train.loggers.logger import LoggedStage, Logger
from rldf_ray.train.worker import PROGRESS, Follower, log_step
from tests.fakes import plan_with
from tests.train.trackers import CALLS, FakeMLflow, FakeTrackio, FakeWandB, Tracker

STEPS = {"sft": 5, "reward": 3, "ppo": 4, "dpo": 2}
ROWS_BEFORE = {"sft": 0, "reward": 5, "ppo": 8}


def plan_for(tracker: str, *overrides: str) -> Plan:
    return plan_with(f"train.loggers=[{tracker}]", "name=bold", *overrides)


def logged_stage(folder: RunFolder, plan: Plan, stage: str) -> LoggedStage:
    out = folder.root / stage
    out.mkdir(parents=True, exist_ok=True)
    run = cast(Run, SimpleNamespace(folder=folder, plan=plan))
    return LoggedStage(plan=plan, name=stage, folder=out, run=tracked_run(run, stage))


def follower_of(logged: LoggedStage, loggers: Sequence[Logger]) -> Follower:
    return Follower(str(logged.folder), lambda done, total: None, loggers)


@contextmanager
def following(folder: RunFolder, plan: Plan, stage: str) -> Iterator[Follower]:
    """What the driver has open while a stage trains."""
    logged = logged_stage(folder, plan, stage)
    with open_loggers(logged) as loggers:
        yield follower_of(logged, loggers)


def write_steps(folder: RunFolder, stage: str, *steps: int) -> None:
    for step in steps:
        log_step(
            folder.root / stage, {"step": step, "steps": STEPS[stage], "loss": figure(stage, step)}
        )


def rewind_to(folder: RunFolder, stage: str, step: int) -> None:
    path = folder.root / stage / PROGRESS
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:step]), encoding="utf-8")


def figure(stage: str, step: int) -> float:
    return step + {"sft": 0.25, "reward": 0.5, "ppo": 0.75, "dpo": 0.125}[stage]


def finish(folder: RunFolder, stage: str) -> None:
    lines = (folder.root / stage / PROGRESS).read_text(encoding="utf-8").splitlines()
    folder.finish(stage, "key", {"history": [json.loads(line) for line in lines]})


def carry_out(folder: RunFolder, plan: Plan, *stages: str) -> None:
    for stage in stages:
        with following(folder, plan, stage) as follower:
            write_steps(folder, stage, *range(1, STEPS[stage] + 1))
            follower.look()
        finish(folder, stage)


def killed(folder: RunFolder, plan: Plan, stage: str, done: int, sent: int) -> None:
    """A driver that is gone after `done` steps of a stage, of which its tracker has `sent`."""
    logged = logged_stage(folder, plan, stage)
    (name,) = plan.train.loggers
    logger = LOGGERS[name](logged)
    follower = follower_of(logged, [logger])
    write_steps(folder, stage, *range(1, sent + 1))
    follower.look()
    tracker = cast(Tracker, sys.modules[name])
    tracker.deliver()
    write_steps(folder, stage, *range(sent + 1, done + 1))
    follower.look()
    tracker.kill()


def row(stage: str, step: int) -> dict[str, float]:
    return {f"{stage}/step": step, f"{stage}/loss": figure(stage, step)}


def rows_of(**first: int) -> list[tuple[int, dict[str, float]]]:
    """All rows of stages, each of which begins at its row of the whole run."""
    return [
        (before + step - 1, row(stage, step))
        for stage, before in first.items()
        for step in range(1, STEPS[stage] + 1)
    ]


WHOLE = rows_of(**ROWS_BEFORE)


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> FakeWandB:
    fake = FakeWandB()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    return fake


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch) -> FakeMLflow:
    fake = FakeMLflow()
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    return fake


@pytest.fixture
def trackio(monkeypatch: pytest.MonkeyPatch) -> FakeTrackio:
    fake = FakeTrackio()
    monkeypatch.setitem(sys.modules, "trackio", fake)
    monkeypatch.delenv("TRACKIO_PROJECT", raising=False)
    return fake


Story = Callable[[RunFolder, Plan], None]


def undisturbed(folder: RunFolder, plan: Plan) -> None:
    carry_out(folder, plan, "sft", "reward", "ppo")


def killed_between_stages(folder: RunFolder, plan: Plan) -> None:
    """After a stage's manifest, and after training but before it."""
    carry_out(folder, plan, "sft")
    with following(folder, plan, "reward") as follower:
        write_steps(folder, "reward", 1, 2, 3)
        follower.look()
    with following(folder, plan, "reward") as follower:
        follower.look()
    finish(folder, "reward")
    carry_out(folder, plan, "ppo")


def killed_within_a_stage(folder: RunFolder, plan: Plan) -> None:
    """Twice, going on from the checkpoint of step 2; the tracker lacks what was under way."""
    killed(folder, plan, "sft", done=4, sent=3)
    with following(folder, plan, "sft") as follower:
        follower.look()
        rewind_to(folder, "sft", 2)
        follower.look()
        write_steps(folder, "sft", 3)
        follower.look()
        write_steps(folder, "sft", 4, 5)
        follower.look()
    finish(folder, "sft")
    carry_out(folder, plan, "reward")
    killed(folder, plan, "ppo", done=1, sent=0)
    with following(folder, plan, "ppo") as follower:
        rewind_to(folder, "ppo", 0)
        write_steps(folder, "ppo", 1, 2, 3, 4)
        follower.look()
    finish(folder, "ppo")


def loses_a_worker(folder: RunFolder, plan: Plan) -> None:
    carry_out(folder, plan, "sft", "reward")
    with following(folder, plan, "ppo") as follower:
        write_steps(folder, "ppo", 1, 2, 3)
        follower.look()
        rewind_to(folder, "ppo", 1)
        follower.look()
        write_steps(folder, "ppo", 2, 3, 4)
        follower.look()
    finish(folder, "ppo")


STORIES = [undisturbed, killed_between_stages, killed_within_a_stage, loses_a_worker]
stories = pytest.mark.parametrize("story", STORIES)


@stories
def test_wandb_has_one_run_without_a_gap_or_a_repeated_step(
    tmp_path: Path, wandb: FakeWandB, story: Story
) -> None:
    folder, plan = RunFolder.at(tmp_path), plan_for("wandb")
    story(folder, plan)
    assert list(wandb.rows) == [folder.read_json(TRACKING)["id"]]
    assert list(next(iter(wandb.rows.values())).items()) == WHOLE
    assert {opened["group"] for opened in wandb.opened} == {"bold"}
    assert all(opened["config"] == plan.model_dump(mode="json") for opened in wandb.opened)
    assert wandb.axes["ppo/*"] == "ppo/step"


@stories
def test_wandb_offline_has_each_row_in_one_of_its_folders(
    tmp_path: Path, wandb: FakeWandB, story: Story
) -> None:
    wandb.offline = True
    folder = RunFolder.at(tmp_path)
    story(folder, plan_for("wandb"))
    assert {opened["id"] for opened in wandb.opened} == {folder.read_json(TRACKING)["id"]}
    files = sorted(
        tmp_path.glob("*/wandb/offline-run-*/*.wandb"), key=lambda file: file.parent.name
    )
    rows = [row for file in files for row in json.loads(file.read_text(encoding="utf-8"))]
    assert rows == [list(row) for row in WHOLE]


@stories
def test_trackio_has_one_run_without_a_gap_or_a_repeated_step(
    tmp_path: Path, trackio: FakeTrackio, story: Story
) -> None:
    folder, plan = RunFolder.at(tmp_path), plan_for("trackio")
    story(folder, plan)
    name = f"bold-{folder.read_json(TRACKING)['id']}"
    assert trackio.runs == {("rldf", name): WHOLE}
    assert {opened["group"] for opened in trackio.opened} == {"bold"}
    assert trackio.opened[-1]["config"] == plan.model_dump(mode="json")


def metrics_of(*stages: str) -> dict[str, list[tuple[int, float]]]:
    """All that MLflow has of these stages."""
    return {
        f"{stage}/loss": [(step, figure(stage, step)) for step in range(1, STEPS[stage] + 1)]
        for stage in stages
    }


@stories
def test_mlflow_has_one_run_without_a_gap_or_a_repeated_step(
    tmp_path: Path, mlflow: FakeMLflow, story: Story
) -> None:
    folder, plan = RunFolder.at(tmp_path), plan_for("mlflow")
    story(folder, plan)
    (run,) = mlflow.runs.values()
    assert run["metrics"] == metrics_of("sft", "reward", "ppo")
    assert run["files"] == {"plan.json": plan.model_dump(mode="json")}
    assert run["tags"]["rldf_ray.plan"] == run["name"] == "bold"
    assert run["status"] == "FINISHED"


TRACKERS = ("wandb", "offline", "trackio", "mlflow")


def sent(tmp_path: Path, tracker: str) -> list[Any]:
    """What a tracker has of each of its runs, in the order in which they were begun."""
    fake: Any = sys.modules["wandb" if tracker == "offline" else tracker]
    if tracker == "mlflow":
        return [run["metrics"] for run in fake.runs.values()]
    if tracker == "offline":
        files = tmp_path.glob("*/wandb/offline-run-*/*.wandb")
        by_run: dict[str, list[Any]] = {opened["id"]: [] for opened in fake.opened}
        for file in sorted(files, key=lambda file: file.parent.name):
            rows = json.loads(file.read_text(encoding="utf-8"))
            by_run[file.stem.removeprefix("run-")] += map(tuple, rows)
        return [*by_run.values()]
    if tracker == "trackio":
        return [*fake.runs.values()]
    return [list(rows.items()) for rows in fake.rows.values()]


def plan_and_folder(
    tmp_path: Path, wandb: FakeWandB, tracker: str, *overrides: str
) -> tuple[RunFolder, Plan]:
    wandb.offline = tracker == "offline"
    name = "wandb" if wandb.offline else tracker
    return RunFolder.at(tmp_path), plan_for(name, *overrides)


@pytest.mark.usefixtures("mlflow", "trackio")
@pytest.mark.parametrize("tracker", TRACKERS)
def test_a_stage_that_is_redone_is_a_run_of_its_own(
    tmp_path: Path, wandb: FakeWandB, tracker: str
) -> None:
    folder, plan = plan_and_folder(tmp_path, wandb, tracker)
    carry_out(folder, plan, "sft", "reward", "ppo")
    before = sent(tmp_path, tracker)
    forget(folder, ["ppo"])
    carry_out(folder, plan, "ppo")
    redone = metrics_of("ppo") if tracker == "mlflow" else rows_of(ppo=ROWS_BEFORE["ppo"])
    found = sent(tmp_path, tracker)
    assert found[-1] == redone and len(found) == 2
    # Offline, the folder of the stage has gone with what it held.
    assert found[:1] == before or tracker == "offline"


@pytest.mark.usefixtures("mlflow", "trackio")
@pytest.mark.parametrize("tracker", TRACKERS)
def test_a_stage_that_is_done_later_than_others_follows_their_rows(
    tmp_path: Path, wandb: FakeWandB, tracker: str
) -> None:
    folder, plan = plan_and_folder(tmp_path, wandb, tracker, "train.after=[dpo]")
    carry_out(folder, plan, "sft", "dpo", "reward")
    expected = metrics_of("sft", "dpo", "reward")
    rows = rows_of(sft=0, dpo=5, reward=7)
    assert sent(tmp_path, tracker) == [expected if tracker == "mlflow" else rows]


@pytest.mark.usefixtures("mlflow", "trackio")
@pytest.mark.parametrize("tracker", TRACKERS)
def test_a_stage_that_goes_on_after_another_is_whole_in_the_run_of_that(
    tmp_path: Path, wandb: FakeWandB, tracker: str
) -> None:
    folder, plan = plan_and_folder(tmp_path, wandb, tracker, "train.after=[dpo]")
    carry_out(folder, plan, "sft")
    with following(folder, plan, "dpo") as follower:
        write_steps(folder, "dpo", 1)
        follower.look()
    carry_out(folder, plan, "reward")
    with following(folder, plan, "dpo") as follower:
        write_steps(folder, "dpo", 2)
        follower.look()
    expected = metrics_of("reward", "dpo")
    rows = rows_of(reward=5, dpo=8)
    assert sent(tmp_path, tracker)[-1] == (expected if tracker == "mlflow" else rows)


def test_figures_sent_from_a_thread_are_the_same_mlflow_run(
    tmp_path: Path, mlflow: FakeMLflow
) -> None:
    folder = RunFolder.at(tmp_path)
    with following(folder, plan_for("mlflow"), "sft") as follower:
        write_steps(folder, "sft", 1)
        thread = threading.Thread(target=follower.look)
        thread.start()
        thread.join()
    assert [run["metrics"] for run in mlflow.runs.values()] == [{"sft/loss": [(1, 1.25)]}]


def test_two_run_folders_of_one_plan_are_two_runs(tmp_path: Path, wandb: FakeWandB) -> None:
    for name in ("one", "two"):
        carry_out(RunFolder.at(tmp_path / name), plan_for("wandb"), "sft")
    assert [len(rows) for rows in wandb.rows.values()] == [STEPS["sft"]] * 2


def test_a_tracker_that_is_named_later_has_the_steps_from_there_on(
    tmp_path: Path, wandb: FakeWandB
) -> None:
    folder = RunFolder.at(tmp_path)
    carry_out(folder, plan_with(), "sft")
    assert not (tmp_path / TRACKING).exists()
    carry_out(folder, plan_for("wandb"), "reward")
    assert [list(rows) for rows in wandb.rows.values()] == [[5, 6, 7]]


@pytest.mark.parametrize("tracker", ["wandb", "mlflow"])
def test_a_stage_that_raises_is_a_failed_run_until_it_is_resumed(
    tmp_path: Path, wandb: FakeWandB, mlflow: FakeMLflow, tracker: str
) -> None:
    folder = RunFolder.at(tmp_path)
    with pytest.raises(KeyboardInterrupt), following(folder, plan_for(tracker), "sft"):
        raise KeyboardInterrupt
    carry_out(folder, plan_for(tracker), "sft")
    if tracker == "wandb":
        assert wandb.exit_codes == [1, 0]
    else:
        assert [run["status"] for run in mlflow.runs.values()] == ["FINISHED"]


@pytest.mark.parametrize("package", CALLS)
def test_the_stand_ins_take_what_the_real_packages_take(package: str) -> None:
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    real = import_module(package)
    for name, stand_in in CALLS[package].items():
        taken = inspect.signature(attrgetter(name)(real)).parameters
        for parameter in list(inspect.signature(stand_in).parameters.values()):
            if parameter.name == "self":
                continue
            theirs = taken[parameter.name]
            assert parameter.kind in (theirs.kind, parameter.KEYWORD_ONLY), (name, parameter)
            assert (parameter.default is parameter.empty) == (theirs.default is theirs.empty)


def test_a_trackio_run_knows_its_next_step() -> None:
    trackio = pytest.importorskip("trackio")
    assert "self._next_step = 0 if max_step is None" in inspect.getsource(trackio.Run.__init__)
