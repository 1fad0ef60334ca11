"""Ablation sweeps (paper 4.3, Figures 8-12).

    python -m tune.ablations PLAN --over roles --over rounds=1,3 --out DIR

The same command goes on with a sweep that was interrupted, and writes the report again when
nothing is left to do.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from rich.table import Table

from rldf_ray.cli import main as entry
from rldf_ray.console import TextConsole
from rldf_ray.errors import UserError
from rldf_ray.models.base import BudgetSpentError
from rldf_ray.plan import PlanError
from rldf_ray.storage.json_text import json_text
from rldf_ray.storage.run_folder import RunFolder
from tune.figures import write_pages
from tune.grids import Sweep, sweep_of
from tune.outcome import best_plan, names_of, outcome
from tune.sweep import Scheduler, SweepSettings, carry_out
from tune.trial import result_of

# What a trial is compared by, and the stage after which it is known.
MEASURES = {"accuracy": "eval", "pairs": "data"}


def main(
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="a preset's name or a YAML file")],
    over: Annotated[
        list[str],
        typer.Option(
            "--over",
            metavar="AXIS[=V1,V2]",
            help="roles, rounds, dataset_size, topics (the paper's grids), figure8 (those four), "
            "teacher, or a field of the plan with values; may be given several times",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="the sweep's folder, new or begun before")],
    overrides: Annotated[
        list[str], typer.Option("--set", metavar="FIELD=VALUE", help="override a field of the plan")
    ] = [],  # noqa: B006 - typer copies it
    repeats: Annotated[int, typer.Option(min=1, help="runs of each setting, seeds apart")] = 1,
    scheduler: Annotated[str, typer.Option(help="none, or asha: half of the trials end at SFT")] = (
        "none"
    ),
    metric: Annotated[
        str,
        typer.Option(help="accuracy on the plan's items, or pairs: debates alone, no training"),
    ] = "accuracy",
    store: Annotated[
        str | None,
        typer.Option(
            help="where finished work is shared (folder, s3://, gs://); default DIR/store"
        ),
    ] = None,
    budget_tokens: Annotated[
        int | None,
        typer.Option(min=1, help="no trial starts after so many generated debate tokens"),
    ] = None,
    budget_trials: Annotated[
        int | None, typer.Option(min=1, help="carry out the first trials only")
    ] = None,
    bias_types: Annotated[
        str | None, typer.Option(help="comma-separated; default: the plan's, all in one run")
    ] = None,
) -> None:
    """Compare settings of a plan, computing nothing twice."""
    try:
        _check(scheduler, metric)
        given = [*overrides, *([] if bias_types is None else [f"bias_types=[{bias_types}]"])]
        sweep = sweep_of(plan, given, over, repeats)
        rungs = ("sft", "eval") if scheduler == "asha" else (MEASURES[metric],)
        settings = SweepSettings(
            out=out.resolve(),
            store=_place_of_store(store, out),
            rungs=rungs,
            scheduler=scheduler,  # type: ignore[arg-type]
            budget_tokens=budget_tokens,
            budget_trials=budget_trials,
        )
        carry_out(sweep, settings)
    except UserError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    report = _report(plan, given, sweep, settings, metric)
    if report["not_run"]:
        raise typer.Exit(BudgetSpentError.exit_status)


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
    if scheduler == "asha" and metric != "accuracy":
        raise PlanError("--scheduler asha compares accuracy after SFT; --metric pairs has no rungs")


def _report(
    plan: str, overrides: list[str], sweep: Sweep, settings: SweepSettings, metric: str
) -> dict[str, Any]:
    """sweep.json, sweep.md, figures/ and best.yaml from the trials that were measured."""
    found = {trial.key: result_of(settings.folder(trial.key)) for trial in sweep.trials}
    results = {key: result for key, result in found.items() if result is not None}
    rung = settings.rungs[-1]
    report = {
        "command": " ".join(["python", "-m", "tune.ablations", *sys.argv[1:]]),
        "metric": metric,
        "repeats": max(setting.repeat for setting in sweep.settings) + 1,
        "seconds": sum(result["seconds"] for result in results.values()),
        **outcome(sweep, results, rung),
    }
    folder = RunFolder(settings.out)
    folder.write_json("sweep.json", report)
    best = best_plan(plan, overrides, sweep, results, rung)
    folder.write_text("best.yaml", best.to_yaml())
    pages = write_pages(report["axes"], names_of(sweep), metric, settings.out / "figures")
    _print(report, settings.out, len(pages))
    return report


def _print(report: dict[str, Any], out: Path, pages: int) -> None:
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
    for what, why in (("stopped_early", "stopped early"), ("not_run", "not run (budget)")):
        if report[what]:
            console.print(f"{why}: {len(report[what])} trial(s)")
    console.print(f"{out / 'sweep.json'}; {pages} page(s) in {out / 'figures'}", soft_wrap=True)
    console.print(f"best: rldf run {out / 'best.yaml'} --out {out / 'best'}", soft_wrap=True)


if __name__ == "__main__":
    entry(lambda: typer.run(main))
