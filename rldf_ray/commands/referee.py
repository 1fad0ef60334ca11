"""`rldf referee`: whether a plan's referee is to be trusted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from rldf_ray.console import Story
from rldf_ray.plan import load_plan

app = typer.Typer(help="The referee by itself.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keeps `audit` a command of its own while it is the only one."""


@app.command()
def audit(
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="a preset's name or a YAML file")],
    out: Annotated[Path, typer.Option("--out", help="the run folder, new or begun before")],
    statements: Annotated[
        Path | None,
        typer.Option("--statements", metavar="FILE", help="jsonl: text, label, maybe context"),
    ] = None,
    set_: Annotated[
        list[str], typer.Option("--set", metavar="FIELD=VALUE", help="override a field of the plan")
    ] = [],  # noqa: B006
    as_json: Annotated[bool, typer.Option("--json", help="print audit.json")] = False,
) -> None:
    """How well the referee tells biased from fair statements whose label is known."""
    from rldf_ray import pipeline
    from rldf_ray.prompts import given_statements

    given = statements.resolve() if statements else None
    if given is not None:
        given_statements(given)
    pipeline.run(load_plan(plan, set_), out, Story(), only=("audit",), statements=given)
    found = json.loads((out / "audit.json").read_text())
    if as_json:
        print(json.dumps(found, indent=2))
        return
    print(found["verdict"])
    if found["bag_of_words"] is not None:
        print(f"A bag of words, fitted to our other half: AUC {found['bag_of_words']['auc']:.2f}")
