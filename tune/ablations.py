"""Ablation sweeps (paper 4.3, Figures 8-12): settings of a plan compared, nothing computed twice.

    rldf sweep PLAN --over roles --over rounds=1,3 --out DIR

The same command goes on with a sweep that was interrupted, and writes the report again when
nothing is left to do.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from rich.table import Table

from rldf_ray.apps.tune.figures import write_pages
from rldf_ray.apps.tune.grids import Sweep, sweep_of
from rldf_ray.apps.tune.outcome import best_plan, names_of, outcome
from rldf_ray.apps.tune.sweep import Scheduler, SweepSettings, carry_out, halved
from rldf_ray.apps.tune.trial import out_of_budget, result_of
from rldf_ray.cluster.provenance import command
from rldf_ray.console import TextConsole
from rldf_ray.plan import PlanError
from rldf_ray.storage.json_text import json_text
from rldf_ray.storage.run_folder import RunFolder

# What a trial is compared by, and the stage after which it is known.
MEASURES = {"accuracy": "eval", "pairs": "data"}
# Trials without a figure, as a report lists them.
_LEFT = {
    "stopped_early": "stopped early, in the lower half after SFT",
    "unfinished": "begun and not finished (budget)",
    "not_run": "not run (budget)",
}


def ablate(
    plan: str,
    overrides: list[str],
    *,
    over: list[str],
    out: Path,
    repeats: int = 1,
    scheduler: str = "none",
    metric: str = "accuracy",
    store: str | None = None,
    budget_tokens: int | None = None,
    budget_trials: int | None = None,
) -> dict[str, Any]:
    """Run the sweep, or what is left of it, and write its report, which is returned.

    Args:
        over: axes, as `--over` takes them (docs/sweeps.md).
        scheduler: `none`, or `halving`: the lower half of each axis's values ends at SFT.
        metric: `accuracy` on the plan's items, or `pairs`: debates alone, no training.
        store: where finished work is shared; `out`/store if null.
        budget_tokens: no trial starts after so many generated debate tokens.
        budget_trials: the first trials only.

    Raises:
        PlanError: a value that is not allowed, or a plan or axis that is none.
        RunInUseError: another program works on the sweep.
        SweepError: a trial failed, or cannot be compared with the others.
    """
    _check(scheduler, metric)
    sweep = sweep_of(plan, overrides, over, repeats)
    rungs = ("sft", "eval") if scheduler == "halving" else (MEASURES[metric],)
    settings = SweepSettings(
        out=out.resolve(),
        store=_place_of_store(store, out),
        rungs=rungs,
        scheduler=scheduler,  # type: ignore[arg-type]
        budget_tokens=budget_tokens,
        budget_trials=budget_trials,
    )
    with RunFolder(settings.out).locked():
        carry_out(sweep, settings)
        return _report(plan, overrides, sweep, settings, metric)


def _place_of_store(store: str | None, out: Path) -> str:
    """Absolute, as trials are programs with working directories of their own."""
    if store is None:
        return str(out.resolve() / "store")
    return store if "://" in store else str(Path(store).resolve())


def _check(scheduler: str, metric: str) -> None:
    if scheduler not in get_args(Scheduler):
        raise PlanError(f"--scheduler {scheduler}: allowed are {', '.join(get_args(Scheduler))}")
    if metric not in MEASURES:
        raise PlanError(f"--metric {metric}: allowed are {', '.join(MEASURES)}")
    if scheduler == "halving" and metric != "accuracy":
        raise PlanError(
            "--scheduler halving compares accuracy after SFT; --metric pairs has no rungs"
        )


def _report(
    plan: str, overrides: list[str], sweep: Sweep, settings: SweepSettings, metric: str
) -> dict[str, Any]:
    """sweep.json, sweep.md, figures/ and best.yaml from the trials that were measured."""
    found = {trial.key: result_of(settings.folder(trial.key)) for trial in sweep.trials}
    results = {key: result for key, result in found.items() if result is not None}
    *before, rung = settings.rungs
    stopped = {key for one in before for key in halved(sweep, settings, one).stopped}
    report = {
        "command": command(),
        "metric": metric,
        "repeats": max(setting.repeat for setting in sweep.settings) + 1,
        "seconds": sum(result["seconds"] for result in results.values()),
        "out_of_budget": out_of_budget(settings.out),
        **outcome(sweep, results, rung, stopped),
    }
    pages = write_pages(report["axes"], names_of(sweep), metric, settings.out / "figures")
    report["figures"] = [page.name for page in pages]
    folder = RunFolder(settings.out)
    folder.write_json("sweep.json", report)
    best = best_plan(plan, overrides, sweep, results, rung)
    folder.write_text("best.yaml", best.to_yaml())
    return report


def show(report: Mapping[str, Any], out: Path) -> None:
    """Every value of every axis, what was reused, what is left, and where the files are."""
    console = TextConsole()
    table = Table("axis", "value", "repeats", f"{report['metric']} (all types)", "best for")
    for name, axis in report["axes"].items():
        for point in axis["points"]["overall"]:
            spread = "" if point["sd"] is None else f" ± {point['sd']:.3g}"
            best = [k for k, value in axis["best"].items() if value == point["value"]]
            table.add_row(
                name, json_text(point["value"]), str(point["n"]),
                f"{point['mean']:.4g}{spread}", ", ".join(best),
            )  # fmt: skip
    console.print(table)
    reuse = report["reuse"]
    if reuse["share_made"] is not None:
        console.print(
            f"{reuse['settings']} settings, {reuse['trials']} trials: "
            f"{reuse['made_tokens']} debate tokens generated, "
            f"{reuse['separately_tokens']} without sharing ({reuse['share_made']:.2f} of them)",
            soft_wrap=True,
        )
    for what, why in _LEFT.items():
        if report[what]:
            console.print(f"{why}: {len(report[what])} trial(s)")
    for left in report["incomplete"]:
        has = (
            f"has {left['n']} of {report['repeats']} repeats, and"
            if left["n"]
            else f"has finished none of its {report['repeats']} repeats: it has no figure, and"
        )
        value = f"{left['axis']}={json_text(left['value'])}"
        console.print(f"{value} {has} is no best value", soft_wrap=True)
    for name, axis in report["axes"].items():
        if "overall" not in axis["best"]:
            console.print(
                f"{name}: no value has all of its repeats, so best.yaml has the plan's own",
                soft_wrap=True,
            )
    if report["out_of_budget"]:
        console.print(f"stopped: {report['out_of_budget']}", soft_wrap=True)
    pages = f"{len(report['figures'])} page(s) in {out / 'figures'}"
    console.print(f"{out / 'sweep.json'}; {pages}", soft_wrap=True)
    console.print(f"best: rldf run {out / 'best.yaml'} --out {out / 'best'}", soft_wrap=True)


if __name__ == "__main__":  # `python -m tune.ablations`, the command's name before it had one
    from rldf_ray.cli import main

    sys.argv.insert(1, "sweep")
    main()
