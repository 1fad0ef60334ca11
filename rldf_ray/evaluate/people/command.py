"""`rldf eval human`: people score free answers, blind; their sheets come back and are joined."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rldf_ray.storage.run_folder import local_copy

PLACE = 7

app = typer.Typer(help="BS, CE and LS of free answers by people.", no_args_is_help=True)


@app.command("export")
def export(
    source: Annotated[
        str, typer.Argument(metavar="ANSWERS", help="a run's folder, or a .parquet or .jsonl file")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="gets for_raters/ and the key")],
    prompts: Annotated[
        int | None,
        typer.Option("--prompts", min=1, help="the answers to this many prompts, by seed"),
    ] = None,
    methods: Annotated[
        str | None, typer.Option("--methods", help="only these, separated by commas")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="of the sample and the order")] = 0,
) -> None:
    """Write a blind, shuffled sheet, as CSV and as a page that needs no server."""
    from rldf_ray.evaluate.judge.answers import RUN_ANSWERS
    from rldf_ray.evaluate.people import run as work

    names = None if methods is None else [name.strip() for name in methods.split(",")]
    work.export(local_copy(source, "plan.yaml", "stages", RUN_ANSWERS), out, prompts, names, seed)


@app.command("import")
def import_(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="sheets that came back")],
    key: Annotated[
        Path, typer.Option("--key", metavar="FILE", help="the key.parquet that the export wrote")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="default: the key's folder")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="of the intervals")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON instead of tables")] = False,
) -> None:
    """Check sheets, measure how far their raters agree, and join the scores with the methods."""
    from rldf_ray.evaluate.people import run as work

    work.leave(work.imported(files, key, out or key.parent, seed), as_json)


COMMANDS = {"human": app}
