"""`rldf eval export`: results in the form of another program."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rldf_ray.console import write

PLACE = 7


class FormName(StrEnum):
    inspect = "inspect"
    lm_eval = "lm-eval"


def export(
    folder: Annotated[
        str,
        typer.Argument(
            metavar="DIR", help="of `rldf eval bbq`, `rldf eval compare` or `rldf study judges`"
        ),
    ],
    to: Annotated[
        FormName, typer.Option("--to", help="inspect_ai's logs, or lm-evaluation-harness' files")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="OUT", help="a new folder")],
    bbq: Annotated[
        Path | None,
        typer.Option("--bbq", metavar="DIR", help="BBQ's files, if they have moved since"),
    ] = None,
) -> None:
    """Write results as logs of inspect_ai, or as lm-evaluation-harness writes its own."""
    from rldf_ray.api.exports import export_results

    for path in export_results(folder, out, to.value, bbq):
        write(str(path))


COMMANDS = {"export": export}
