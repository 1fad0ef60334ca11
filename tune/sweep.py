"""A sweep on Ray Tune: trials one after another, each a program and a Ray job of its own.

    Tuner --(one at a time)--> Tune's actor --starts--> python -m tune.trial --joins--> the cluster

A trial has the whole cluster for its engines and workers, and what earlier trials left in the
store. Ending its program ends its Ray job; `tune.cleanup` sees to what outlives a job.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rldf_ray.apps.tune.cleanup import PROGRAM, clear_ended_trials
from rldf_ray.apps.tune.grids import Sweep, Trial
from rldf_ray.apps.tune.trial import OUT_OF_BUDGET, out_of_budget, result_of
from rldf_ray.cluster.import_path import import_path
from rldf_ray.cluster.ray_cluster import ray_cluster
from rldf_ray.errors import UserError
from rldf_ray.models.base import BudgetSpentError
from rldf_ray.storage.digest import digest
from rldf_ray.storage.folders import visible
from rldf_ray.storage.run_folder import RunFolder

Scheduler = Literal["none", "asha"]
METRIC = "overall"


class SweepError(UserError):
    """A trial failed; the message says which, and where its output is."""


@dataclass(frozen=True, kw_only=True)
class SweepSettings:
    """How a sweep is carried out.

    Attributes:
        out: folder of the sweep; trials are run folders in trials/.
        store: where finished work is shared, a folder or a pyarrow filesystem's address.
        rungs: the points at which a trial is measured, in order; ASHA stops trials at the first.
        budget_tokens: no trial starts once the debates have generated this many tokens.
        budget_trials: trials of the sweep that are carried out at most.
    """

    out: Path
    store: str
    rungs: tuple[str, ...]
    scheduler: Scheduler = "none"
    budget_tokens: int | None = None
    budget_trials: int | None = None

    def folder(self, trial: str) -> RunFolder:
        return RunFolder(self.out / "trials" / trial)


def carry_out(sweep: Sweep, settings: SweepSettings) -> None:
    """Carry out the trials that have not finished; a sweep that was interrupted goes on.

    Where the plan's budget at an endpoint is spent, no further trial starts (`out_of_budget`).

    Raises:
        SweepError: a trial failed, or cannot be compared with the others at a rung. The same
            command goes on from there.
    """
    trials = sweep.trials[: settings.budget_trials]
    for trial in trials:
        settings.folder(trial.key).write_text("trial.yaml", trial.plan.to_yaml())
    RunFolder(settings.out).remove(OUT_OF_BUDGET)
    todo = [trial for trial in trials if not finished(settings, trial.key)]
    if not todo:
        return
    _check_rungs(trials, settings)
    _quiet_tune()
    with ray_cluster(settings.out / "logs"):
        try:
            results = _tuner(sweep, trials, settings).fit()
        finally:
            clear_ended_trials()
    stopped = out_of_budget(settings.out) is not None
    failed = [e for e in results.errors if not (stopped and BudgetSpentError.__name__ in str(e))]
    if failed:
        raise SweepError(f"{len(failed)} trial(s) failed: {_first_line(failed[0])}")


def _check_rungs(trials: Sequence[Trial], settings: SweepSettings) -> None:
    """Trials that have finished were measured at every rung: their models are gone."""
    last = settings.rungs[-1]
    results = (result_of(settings.folder(trial.key)) for trial in trials)
    measured = [result["measured"] for result in results if result is not None]
    unknown = [rungs for rungs in measured if last in rungs and not {*settings.rungs} <= {*rungs}]
    if unknown:
        raise SweepError(
            f"--scheduler {settings.scheduler} compares trials after {settings.rungs[0]}, and "
            f"{len(unknown)} of this sweep were finished without that figure: go on with "
            f"--scheduler none, or begin another --out with --store {settings.store}, which has "
            "their debates and what was trained on them"
        )


def finished(settings: SweepSettings, trial: str) -> bool:
    """Whether a trial was measured at the last rung."""
    result = result_of(settings.folder(trial))
    return result is not None and settings.rungs[-1] in result["measured"]


def _tuner(sweep: Sweep, trials: Sequence[Trial], settings: SweepSettings) -> Any:
    from ray import tune

    address = _node_address()
    configs = [_config(trial, sweep, settings) for trial in trials]
    name = digest(configs, settings.scheduler, settings.budget_tokens)
    # A program needs no core of its own: engines and workers have them all.
    trainable = tune.with_resources(
        trainable_of, tune.PlacementGroupFactory([{f"node:{address}": 0.001}])
    )
    path = settings.out / "tune" / name
    if tune.Tuner.can_restore(str(path)):
        return tune.Tuner.restore(
            str(path), trainable=trainable, resume_unfinished=True, restart_errored=True
        )
    return tune.Tuner(
        trainable,
        param_space={"trial": tune.grid_search(configs)},
        tune_config=tune.TuneConfig(
            metric=METRIC,
            mode="max",
            max_concurrent_trials=1,
            scheduler=_scheduler(settings),
        ),
        run_config=tune.RunConfig(name=name, storage_path=str(settings.out / "tune"), verbose=0),
    )


def _config(trial: Trial, sweep: Sweep, settings: SweepSettings) -> dict[str, Any]:
    return {
        "key": trial.key,
        "folder": str(settings.folder(trial.key).root),
        "sweep": str(settings.out),
        "store": settings.store,
        "most_topics": sweep.most_topics,
        "rungs": list(settings.rungs),
        "budget_tokens": settings.budget_tokens,
    }


def _scheduler(settings: SweepSettings) -> Any:
    """ASHA halves at the rungs before the last; all trials are measured on the same items."""
    if settings.scheduler == "none":
        return None
    from ray.tune.schedulers import AsyncHyperBandScheduler

    return AsyncHyperBandScheduler(
        time_attr="training_iteration",
        grace_period=1,
        reduction_factor=2,
        max_t=len(settings.rungs),
    )


def trainable_of(config: dict[str, Any]) -> None:
    """Tune's function: carry one trial from rung to rung, reporting what was measured."""
    from ray import tune

    trial = config["trial"]
    folder = RunFolder(Path(trial["folder"]))
    for rung in trial["rungs"]:
        result = result_of(folder)
        if result is None or rung not in result["measured"]:
            if _spent(trial):
                return
            _check_budget(Path(trial["sweep"]))
            _run(_command(trial, rung), folder)
            result = result_of(folder)
        assert result is not None
        tune.report({**result["measured"][rung], "made_tokens": result["tokens"]["made"]})


def _spent(trial: dict[str, Any]) -> bool:
    """Whether the debates of the whole sweep have taken the budget."""
    if trial["budget_tokens"] is None:
        return False
    limit: int = trial["budget_tokens"]
    return made_tokens(Path(trial["sweep"])) >= limit


def _check_budget(out: Path) -> None:
    """Nothing unless an earlier trial found the budget of the plan's endpoint spent.

    Raises:
        BudgetSpentError: it did. Tune goes on with a trial that failed, not with one that ended.
    """
    why = out_of_budget(out)
    if why is not None:
        raise BudgetSpentError(why)


def made_tokens(out: Path) -> int:
    """Tokens that the debates of all trials in a sweep's folder generated."""
    results = [result_of(RunFolder(path)) for path in visible(out / "trials")]
    return sum(result["tokens"]["made"] for result in results if result is not None)


def _command(trial: dict[str, Any], rung: str) -> list[str]:
    plan = str(Path(trial["folder"]) / "trial.yaml")
    options = {"out": "folder", "store": "store", "most-topics": "most_topics"}
    given = [part for name, key in options.items() for part in (f"--{name}", str(trial[key]))]
    return [sys.executable, "-m", PROGRAM, plan, *given, "--until", rung]


def _run(command: Sequence[str], folder: RunFolder) -> None:
    """A program to its end, in a process group that goes with the actor."""
    import ray

    log = folder.path("logs/trial.log")
    environment = {
        **os.environ,
        "RAY_ADDRESS": ray.get_runtime_context().gcs_address,
        "PYTHONPATH": import_path(),
    }
    with log.open("ab") as output:
        program = subprocess.Popen(
            command, stdout=output, stderr=output, env=environment, start_new_session=True
        )
        try:
            status = program.wait()
        finally:
            _end(program)
            clear_ended_trials()
    if status == BudgetSpentError.exit_status:
        raise BudgetSpentError(f"a trial ended with status {status}: {log} has its output")
    if status != 0:
        raise SweepError(f"a trial ended with status {status}: {log} has its output")


def _end(program: subprocess.Popen[bytes]) -> None:
    """Whatever is left of the program's processes."""
    try:
        os.killpg(program.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    program.wait()


def _node_address() -> str:
    """The address of this node: run folders are here, so trials' programs are too."""
    import ray

    here = ray.get_runtime_context().get_node_id()
    return str(next(n["NodeManagerAddress"] for n in ray.nodes() if n["NodeID"] == here))


def _quiet_tune() -> None:
    """Tune neither changes the working directory nor writes loggers' files of its own.

    Ctrl-C is the command's: Tune would go on until its trials have ended.
    """
    os.environ.setdefault("RAY_CHDIR_TO_TRIAL_DIR", "0")
    os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
    os.environ.setdefault("TUNE_DISABLE_SIGINT_HANDLER", "1")


def _first_line(error: BaseException) -> str:
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__
