"""`rldf persuasion`: what is made of a finished study of persuasion."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rldf_ray.console import write
from rldf_ray.storage.json_text import json_text
from rldf_ray.storage.run_folder import RunFolder

app = typer.Typer(help="A finished study of persuasion.", no_args_is_help=True)

Study = Annotated[str, typer.Argument(metavar="DIR", help="the study's folder")]


@app.callback()
def group() -> None:
    """A finished study of persuasion."""


@app.command()
def rows(
    study: Study,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="a folder for the two files")],
) -> None:
    """Training rows: sft.jsonl (true arguments that were believed), pairs.jsonl (candidates)."""
    from rldf_ray.protocols.persuasion.folder import study_data
    from rldf_ray.protocols.persuasion.training import pair_rows, sft_rows, training_data
    from rldf_ray.studies.plans import load_study

    folder = RunFolder.at(study)
    settings = load_study("persuasion", str(folder.fetched("plan.yaml"))).settings
    held = study_data(folder)
    data = training_data(held.items, held.tables, settings)
    out.mkdir(parents=True, exist_ok=True)
    for name, made in (("sft", sft_rows(data)), ("pairs", pair_rows(data))):
        lines = [f"{json_text(row)}\n" for row in made]
        (out / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
        write(f"{len(lines)} rows: {out / name}.jsonl")
