"""A sweep on Ray Tune: trials one after another, each a program and a Ray job of its own.

    Tuner --(one at a time)--> Tune's actor --starts--> python -m tune.trial --joins--> the cluster

All trials of an axis are measured at a rung before any of them goes on to the next (`halving`). A
trial has the whole cluster for its engines and workers, and what earlier trials left in the store.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rldf_ray.apps.tune.cleanup import clear_ended_trials
from rldf_ray.apps.tune.grids import Sweep, Trial
from rldf_ray.apps.tune.halving import Halved, halve
from rldf_ray.apps.tune.measure import items_drawn
from rldf_ray.apps.tune.trainable import SweepError, trainable_of
from rldf_ray.apps.tune.trial import OUT_OF_BUDGET, out_of_budget, result_of
from rldf_ray.cluster.ray_cluster import ray_cluster
from rldf_ray.models.base import BudgetSpentError
from rldf_ray.storage.digest import digest
from rldf_ray.storage.run_folder import RunFolder

Scheduler = Literal["none", "halving"]
METRIC = "overall"


@dataclass(frozen=True, kw_only=True)
class SweepSettings:
    """How a sweep is carried out.

    Attributes:
        out: folder of the sweep; trials are run folders in trials/.
        store: where finished work is shared, a folder or a pyarrow filesystem's address.
        rungs: the points at which a trial is measured, in order; between two of them halving
            stops the lower half.
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
    if _measured(trials, settings, settings.rungs[-1]):
        return
    _check_rungs(trials, settings)
    _check_items(trials, settings)
    if all(_measured(_going(sweep, settings, rung), settings, rung) for rung in settings.rungs):
        return
    _quiet_tune()
    with ray_cluster(settings.out / "logs"):
        try:
            for rung in settings.rungs:
                going = _going(sweep, settings, rung)
                if out_of_budget(settings.out) is None and not _measured(going, settings, rung):
                    _measure(going, rung, sweep, settings)
        finally:
            clear_ended_trials()


def halved(sweep: Sweep, settings: SweepSettings, rung: str) -> Halved:
    """Which trials go on after `rung`, and which end there, by what has been measured so far."""
    results = {trial.key: result_of(settings.folder(trial.key)) for trial in sweep.trials}
    figures = {
        key: result["measured"][rung][METRIC]
        for key, result in results.items()
        if result is not None and rung in result["measured"]
    }
    return halve(sweep, figures)


def _going(sweep: Sweep, settings: SweepSettings, rung: str) -> list[Trial]:
    """The trials that are to be measured at `rung`, or have been."""
    trials = sweep.trials[: settings.budget_trials]
    place = settings.rungs.index(rung)
    if place == 0:
        return list(trials)
    kept = halved(sweep, settings, settings.rungs[place - 1]).kept
    return [trial for trial in trials if trial.key in kept]


def _measured(trials: Iterable[Trial], settings: SweepSettings, rung: str) -> bool:
    """Whether all of them have a figure at `rung`."""
    results = (result_of(settings.folder(trial.key)) for trial in trials)
    return all(result is not None and rung in result["measured"] for result in results)


def _measure(trials: Sequence[Trial], rung: str, sweep: Sweep, settings: SweepSettings) -> None:
    """Take trials to `rung`, one after another.

    Raises:
        SweepError: one of them failed.
    """
    results = _tuner(trials, rung, sweep, settings).fit()
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


def _check_items(trials: Sequence[Trial], settings: SweepSettings) -> None:
    """Trials that were measured have answered the items that the others will be asked.

    Raises:
        SweepError: they have not, as an earlier version drew samples otherwise.
    """
    for trial in trials:
        result = result_of(settings.folder(trial.key))
        if result is None or not {"sft", "eval"} & {*result["measured"]}:
            continue
        if result.get("items") != items_drawn(trial.plan):
            raise SweepError(
                f"trial {trial.key} of this sweep was measured on other items than are drawn now "
                "(evaluate.items_per_category; an earlier version drew them otherwise): begin "
                f"another --out with --store {settings.store}, which has the debates and what was "
                "trained on them"
            )


def _tuner(trials: Sequence[Trial], rung: str, sweep: Sweep, settings: SweepSettings) -> Any:
    from ray import tune

    address = _node_address()
    configs = [_config(trial, rung, sweep, settings) for trial in trials]
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
        tune_config=tune.TuneConfig(metric=METRIC, mode="max", max_concurrent_trials=1),
        run_config=tune.RunConfig(name=name, storage_path=str(settings.out / "tune"), verbose=0),
    )


def _config(trial: Trial, rung: str, sweep: Sweep, settings: SweepSettings) -> dict[str, Any]:
    return {
        "key": trial.key,
        "folder": str(settings.folder(trial.key).root),
        "sweep": str(settings.out),
        "store": settings.store,
        "most_topics": sweep.most_topics,
        "rung": rung,
        "budget_tokens": settings.budget_tokens,
    }


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
