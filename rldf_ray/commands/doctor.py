"""`rldf doctor`: whether a plan fits, and what it would take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from rldf_ray.console import TextConsole, write
from rldf_ray.plan import Plan, PlanError, Speaker, load_plan
from rldf_ray.plan.saved import saved_plan
from rldf_ray.preflight.estimate import estimate, summary
from rldf_ray.preflight.nodes import SYNTAX, arrange, parse_nodes
from rldf_ray.preflight.stage_estimate import StageEstimate
from rldf_ray.storage.json_text import json_text
from rldf_ray.storage.results import Finish, finish
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.storage.stages import PIPELINE

if TYPE_CHECKING:
    from rldf_ray.preflight.doctor import Check

RUNS = Path("runs")


def doctor(
    plan: Annotated[str, typer.Argument(metavar="[PLAN]")] = "quickstart",
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help=f"where the run would be; else {RUNS}"),
    ] = None,
    set_: Annotated[
        list[str], typer.Option("--set", metavar="FIELD=VALUE", help="override a field of the plan")
    ] = [],  # noqa: B006
    like: Annotated[
        Path | None,
        typer.Option("--like", metavar="RUN", help="an earlier run, for its tokens and times"),
    ] = None,
    nodes: Annotated[
        str | None,
        typer.Option("--nodes", metavar="NODES", help=f"place the plan on nodes: {SYNTAX}"),
    ] = None,
    study: Annotated[
        str | None, typer.Option("--study", metavar="NAME", help="PLAN is one of this study")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON instead of tables")] = False,
) -> None:
    """What is installed, whether a plan fits, and what its run would take; says what to change."""
    _check_options(study, nodes, like)
    if nodes is not None and out is not None:
        raise typer.BadParameter("--out with --nodes: nodes that need not exist have no disk here")
    where = RUNS if out is None else out
    if study is not None:
        _examine_study(study, plan, set_, where, as_json)
        return
    if nodes is not None:
        _print_arrangement(load_plan(plan, set_), nodes, as_json)
        return
    from rldf_ray.preflight.doctor import examine

    loaded = load_plan(plan, set_)
    checks = examine(loaded, where)
    # What is to be reckoned with has to be right, which its check says.
    reckonable = all(check.ok for check in checks if check.name in ("protocol", "bias types"))
    earlier = measured(like) if like else None
    stages = estimate(loaded, earlier) if reckonable else []
    if as_json:
        print(json_text(_as_dict(checks, stages), indent=2))
    else:
        console = TextConsole(soft_wrap=True)
        _print_checks(console, checks)
        if stages:
            _print_estimate(console, stages, like)
    if not all(check.ok for check in checks):
        raise typer.Exit(1)


def _check_options(study: str | None, nodes: str | None, like: Path | None) -> None:
    given = {"--study": study, "--nodes": nodes, "--like": like}
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise typer.BadParameter(
            f"{' with '.join(names)}: each is for another question; give one of them"
        )


def _examine_study(name: str, plan: str, overrides: list[str], out: Path, as_json: bool) -> None:
    from rldf_ray.commands.study import print_estimate
    from rldf_ray.studies.doctor import examine_study
    from rldf_ray.studies.estimate import estimated
    from rldf_ray.studies.plans import load_study

    loaded = load_study(name, plan, overrides)
    checks = examine_study(name, loaded, out)
    # Without data there is nothing to reckon with, which its check says.
    readable = all(check.ok for check in checks if check.name == "data")
    rows = estimated(name, loaded) if readable else []
    if as_json:
        found = [asdict(check) for check in checks]
        print(json_text({"checks": found, "estimate": [row.as_dict() for row in rows]}, indent=2))
    else:
        console = TextConsole(soft_wrap=True)
        _print_checks(console, checks)
        if rows:
            print_estimate(console, rows)
    if not all(check.ok for check in checks):
        raise typer.Exit(1)


def _print_arrangement(plan: Plan, nodes: str, as_json: bool) -> None:
    """Where the plan would go on nodes that need not exist."""
    from rldf_ray.models.embedded import resolve_model
    from rldf_ray.preflight.models import parameters_of, stored_dtype

    model = resolve_model(plan.model)
    own = Speaker("vllm", plan.model)
    speaking = [speaker for speaker in plan.speakers() if speaker.local and speaker.on_engines]
    arrangement = arrange(
        plan,
        parse_nodes(nodes),
        parameters_of(model),
        [parameters_of(resolve_model(other.model)) for other in speaking if other != own],
        stored_dtype(model),
    )
    lines = "\n".join([*arrangement.nodes, arrangement.memory])
    write(json_text(asdict(arrangement), indent=2) if as_json else lines)


def measured(run: Path) -> tuple[Plan, dict[str, Finish]]:
    """An earlier run's plan, and the stages it has finished by name.

    Raises:
        PlanError: `run` is no run folder.
    """
    saved = run / "plan.yaml"
    if not saved.exists():
        raise PlanError(f"--like {run}: no run folder, as it has no plan.yaml")
    folder = RunFolder(run)
    plan, stages = saved_plan(folder), {name: finish(folder, name) for name in PIPELINE}
    return plan, {name: s for name, s in stages.items() if s is not None}


def _as_dict(checks: Sequence[Check], stages: Sequence[StageEstimate]) -> dict[str, Any]:
    return {
        "checks": [asdict(check) for check in checks],
        "estimate": {"stages": [asdict(stage) for stage in stages], "total": summary(stages)},
    }


def _print_checks(console: Console, checks: Sequence[Check]) -> None:
    table = Table("", "check", "found", show_header=False, box=None)
    for check in checks:
        table.add_row("ok" if check.ok else "NO", check.name, check.found)
    console.print(table)


def _print_estimate(console: Console, stages: Sequence[StageEstimate], like: Path | None) -> None:
    source = f"corrected by what {like} took" if like else "every answer as long as the plan allows"
    console.print(f"\nWhat the run would take ({source}):", markup=False)
    table = Table("stage", "calls", "prompt tokens", "generated", "USD", "minutes", box=None)
    for row in [*map(asdict, stages), {"name": "in all", **summary(stages)}]:
        counts = [f"{row[name]:,}" for name in ("calls", "prompt", "generated")]
        table.add_row(row["name"], *counts, _known(row["usd"], 1), _known(row["seconds"], 60))
    console.print(table)
    if like is None:
        console.print("Times are unknown without an earlier run to go by: --like RUN.")


def _known(value: float | None, unit: float) -> str:
    return "unknown" if value is None else f"{value / unit:,.2f}"
