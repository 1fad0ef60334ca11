"""`rldf eval figures`: charts and the case study of what has been compared or judged."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

from rldf_ray.console import Progress
from rldf_ray.plan import PlanError
from rldf_ray.storage.left_over import left_over
from rldf_ray.storage.object_store import is_address
from rldf_ray.storage.run_folder import RunFolder, local_copy

PLACE = 6

ITEMS = "compare/eval/items.parquet"
RESULTS = ("compare/results.parquet", "eval/judge_long.parquet")
TEXTS = (
    "eval/judge.parquet",
    "compare/eval/judge.parquet",
    "compare/free_answers.parquet",
    "eval/answers.parquet",
)
SUMMARY = "compare/compare.json"


def figures(
    folder: Annotated[
        str,
        typer.Argument(metavar="DIR", help="of `rldf eval compare`, `rldf eval judge` or a run"),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="default: DIR/figures")
    ] = None,
) -> None:
    """Draw CE and LS (Figures 5, 6) and BBQ's accuracies, show answers beside others (Figure 7)."""
    from rldf_ray.report.abstention import answered_of
    from rldf_ray.report.comparison import write_figures

    drawn_from = (ITEMS, *RESULTS, *TEXTS)
    if is_address(folder) and out is None:
        raise PlanError(f"rldf eval figures {folder}: give --out, a folder of this machine")
    source = RunFolder(local_copy(folder, "plan.yaml", "stages", *drawn_from, SUMMARY).resolve())
    there = [
        name
        for name in drawn_from
        if (source.root / name).exists() and not left_over(source.root, name)
    ]
    if not there:
        raise PlanError(f"{folder} has nothing to draw: needed is one of {', '.join(drawn_from)}")
    items = _items(source) if ITEMS in there else []
    results = _once(_rows(source, [name for name in RESULTS if name in there]))
    texts = _rows(source, [name for name in TEXTS if name in there][:1])
    figures_at = out or source.root / "figures"
    for line in write_figures(answered_of(items), results, texts, _titles(source), figures_at):
        Progress().say(line)


def _items(folder: RunFolder) -> list[dict[str, Any]]:
    """Without what was thought, which is most of the file."""
    from rldf_ray.report.abstention import NEEDED

    table = folder.read_table(ITEMS)
    rows: list[dict[str, Any]] = table.select(
        [name for name in NEEDED if name in table.column_names]
    ).to_pylist()
    return rows


def _once(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A comparison that was given a judge's figures has them as well: they are no second repeat."""
    keys = ("method", "repeat", "set", "group", "measure")
    return list({tuple(row[key] for key in keys): row for row in rows}.values())


def _rows(folder: RunFolder, names: list[str]) -> list[dict[str, Any]]:
    tables: list[pa.Table] = [folder.read_table(name) for name in names]
    return [row for table in tables for row in table.to_pylist()]


def _titles(folder: RunFolder) -> dict[str, str]:
    """What the comparison calls its methods."""
    if not (folder.root / SUMMARY).exists():
        return {}
    methods = folder.read_object(SUMMARY).get("methods", [])
    return {method["name"]: method["title"] for method in methods}


COMMANDS = {"figures": figures}
