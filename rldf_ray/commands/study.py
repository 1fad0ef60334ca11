"""`rldf study`: a protocol studied by itself, its paper's tables and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from rldf_ray.console import Progress, table_console, write
from rldf_ray.protocols.known import study_named, study_names
from rldf_ray.storage.json_text import json_text

if TYPE_CHECKING:
    from rldf_ray.studies.estimate import ModelEstimate
    from rldf_ray.studies.plans import LoadedStudy

Name = Annotated[str, typer.Argument(metavar="NAME", help="a study (`rldf study list`)")]
PlanName = Annotated[str, typer.Argument(metavar="PLAN", help="a preset's name or a YAML file")]
Out = Annotated[
    str | None, typer.Option("--out", metavar="DIR", help="the study's folder, new or begun before")
]
Set = Annotated[
    list[str], typer.Option("--set", metavar="FIELD=VALUE", help="override a field of the plan")
]
Estimate = Annotated[
    bool, typer.Option("--estimate", help="print calls, tokens and cost at most; ask nothing")
]
AsJSON = Annotated[bool, typer.Option("--json", help="print JSON instead of tables")]
TAKEN: Mapping[str, Mapping[str, str]] = {
    "list": {},
    "fields": {"PLAN": "NAME"},
    "rows": {"PLAN": "DIR", "--out": "--out"},
}
"""What stands in a study's place: what it takes beside `--json`, and by which name."""


def study(
    name: Name,
    plan: PlanName = "",
    out: Out = None,
    set_: Set = [],  # noqa: B006
    estimate: Estimate = False,
    as_json: AsJSON = False,
) -> None:
    """Study a protocol by itself.

    `list` names the studies, `fields NAME` lists a plan's fields, and `rows DIR --out OUT` writes
    training rows of a finished study: sft.jsonl and pairs.jsonl.
    """
    if name in TAKEN:
        _check_taken(name, {"PLAN": plan, "--out": out, "--set": set_, "--estimate": estimate})
    if name == "list":
        _list(as_json)
        return
    if name == "fields":
        _fields(plan, as_json)
        return
    if name == "rows":
        _rows(plan, out, as_json)
        return
    from rldf_ray.studies.plans import load_study

    if not plan:
        raise typer.BadParameter("name a plan: a preset (`rldf study list`) or a YAML file")
    loaded = load_study(name, plan, set_)
    if estimate:
        _estimate(name, loaded, as_json)
        return
    if out is None:
        raise typer.BadParameter("--out DIR is missing: the study's folder")
    from rldf_ray.studies.run import run_study

    progress = Progress.beside(as_json)
    summary = run_study(name, loaded, out, progress)
    if as_json:
        facts = {"notes": summary.notes, "facts": summary.facts}
        write(json_text(facts, indent=2))
        return
    console = table_console()
    for table in summary.tables:
        _print(console, table.title, table.columns, table.rows)


def _check_taken(name: str, given: Mapping[str, object]) -> None:
    """Nothing is given that would be ignored."""
    ignored = [what for what, value in given.items() if value and what not in TAKEN[name]]
    if ignored:
        takes = " and ".join(TAKEN[name].values()) or "nothing more"
        raise typer.BadParameter(
            f"`rldf study {name}` takes {takes}, and not {', '.join(ignored)}: leave it out"
        )


def _print(
    console: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]
) -> None:
    shown = Table(*columns, box=None, title=title, title_justify="left")
    for row in rows:
        shown.add_row(*row)
    console.print()
    console.print(shown)


def _list(as_json: bool) -> None:
    from rldf_ray.studies.plans import study_presets

    found = {
        name: {"title": study_named(name).TITLE, "presets": list(study_presets(name))}
        for name in study_names()
    }
    if as_json:
        write(json_text(found, indent=2))
        return
    rows = [
        [name, study_named(name).TITLE, ", ".join(study_presets(name))] for name in study_names()
    ]
    _print(table_console(), "Studies", ["name", "what of", "presets"], rows)


def _fields(name: str, as_json: bool) -> None:
    from dataclasses import asdict

    from pydantic_core import to_jsonable_python

    from rldf_ray.studies.plans import study_fields

    fields = list(study_fields(name))
    if as_json:
        described = [asdict(field) for field in fields]
        write(json_text(described, indent=2, default=to_jsonable_python))
        return
    rows = [
        [f.path, f.type, str(f.default), f"{f.description}{f' [{f.unit}]' if f.unit else ''}"]
        for f in fields
    ]
    _print(table_console(), f"Fields of a plan for {name}", ["field", "type", "default", ""], rows)


def _rows(folder: str, out: str | None, as_json: bool) -> None:
    from rldf_ray.storage.object_store import local_path
    from rldf_ray.storage.run_folder import RunFolder
    from rldf_ray.studies.finished import write_training_rows

    if not folder or out is None:
        raise typer.BadParameter("rldf study rows DIR --out OUT: a finished study, a folder")
    written = write_training_rows(RunFolder.at(folder), local_path(out))
    if as_json:
        write(json_text({str(path): number for path, number in written.items()}, indent=2))
        return
    for path, number in written.items():
        write(f"{number} rows: {path}")


def _estimate(name: str, loaded: LoadedStudy, as_json: bool) -> None:
    from rldf_ray.studies.estimate import estimated

    rows = estimated(name, loaded)
    if as_json:
        write(json_text([row.as_dict() for row in rows], indent=2))
    else:
        print_estimate(table_console(), rows)


def print_estimate(console: Console, rows: Sequence[ModelEstimate]) -> None:
    """Calls, tokens and cost by model, and in all."""
    cells = [
        [r.model, f"{r.calls:,.0f}", f"{r.prompt:,.0f}", f"{r.generated:,.0f}", r.usd_text]
        for r in rows
    ]
    columns = ["model", "calls", "prompt tokens", "generated", "USD"]
    _print(console, "What the study would take, at most", columns, cells)
