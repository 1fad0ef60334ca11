"""`rldf sweep`: settings of a plan compared, on Ray Tune."""

from __future__ import annotations

import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from rldf_ray.console import write
from rldf_ray.models.base import BudgetSpentError
from rldf_ray.storage.json_text import json_text


def sweep(
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
    scheduler: Annotated[
        str,
        typer.Option(help="none, or halving: the lower half of each axis's values ends at SFT"),
    ] = "none",
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
    as_json: Annotated[
        bool, typer.Option("--json", help="print sweep.json instead of a table")
    ] = False,
) -> None:
    """Compare settings of a plan, computing nothing twice."""
    from rldf_ray.apps.tune.ablations import ablate, show

    # Tune has a table of its own.
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        report = ablate(
            plan,
            [*overrides, *([] if bias_types is None else [f"bias_types=[{bias_types}]"])],
            over=over,
            out=out,
            repeats=repeats,
            scheduler=scheduler,
            metric=metric,
            store=store,
            budget_tokens=budget_tokens,
            budget_trials=budget_trials,
        )
    if as_json:
        write(json_text(report, indent=2))
    else:
        show(report, out.resolve())
    if report["not_run"] or report["unfinished"] or report["out_of_budget"]:
        raise typer.Exit(BudgetSpentError.exit_status)
