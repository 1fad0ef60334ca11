"""`rldf data export` and `rldf data import`: data out of a run, and into one."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from rldf_ray.console import write
from rldf_ray.dataset.export import export_files, hub_files
from rldf_ray.plan import load_plan
from rldf_ray.plan.saved import saved_plan
from rldf_ray.storage.hub import HubError, hub_client, listing, upload
from rldf_ray.storage.object_store import local_path
from rldf_ray.storage.run_folder import RunFolder


class Form(StrEnum):
    hub = "hub"
    jsonl = "jsonl"
    parquet = "parquet"


def export(
    out: Annotated[str, typer.Argument(metavar="RUN", help="a run folder or address")],
    target: Annotated[
        str, typer.Argument(metavar="DEST", help="a new folder, or USER/NAME on the hub")
    ],
    to: Annotated[Form, typer.Option("--to", help="what it becomes")],
    public: Annotated[
        bool, typer.Option("--public", help="hub: for everybody; private otherwise")
    ] = False,
) -> None:
    """Take a run's data elsewhere, with its card and content warning."""
    if public and to is not Form.hub:
        raise HubError(f"rldf data export --to {to.value}: --public is of --to hub alone")
    folder = RunFolder.at(out)
    saved_plan(folder)
    folder.fetched("data")
    if to is not Form.hub:
        form: Literal["jsonl", "parquet"] = "jsonl" if to is Form.jsonl else "parquet"
        for file in export_files(folder, local_path(target), form):
            write(str(file))
        return
    files = hub_files(folder)
    write(f"dataset {target}:")
    for line in listing(files):
        write(line)
    is_public = upload(
        hub_client(), target, "dataset", files, public=public, message="Data of an rldf_ray run"
    )
    write(f"dataset {target}, {'public' if is_public else 'private'}")


def import_(
    out: Annotated[str, typer.Argument(metavar="RUN", help="a new run folder or address")],
    plan: Annotated[str, typer.Option("--plan", help="begin the folder with this plan")],
    topics: Annotated[
        Path | None, typer.Option("--topics", metavar="FILE", help=".jsonl or .parquet")
    ] = None,
    transcripts: Annotated[
        Path | None, typer.Option("--transcripts", metavar="FILE", help=".jsonl or .parquet")
    ] = None,
    pairs: Annotated[
        Path | None, typer.Option("--pairs", metavar="FILE", help=".jsonl or .parquet")
    ] = None,
    set_: Annotated[
        list[str], typer.Option("--set", metavar="FIELD=VALUE", help="override a field of the plan")
    ] = [],  # noqa: B006
) -> None:
    """Begin a run with topics, transcripts or pairs of your own."""
    from rldf_ray.dataset.begin_run import Given, import_run
    from rldf_ray.evaluate.contamination import texts_to_avoid

    given = Given(topics, transcripts, pairs)
    loaded = load_plan(plan, set_)
    imported = import_run(loaded, RunFolder.at(out), given, texts_to_avoid(loaded))
    if imported.overlaps_dropped:
        dropped = ", ".join(f"{n} {how}" for how, n in sorted(imported.overlaps_dropped.items()))
        write(f"left out, as they repeat what the run is evaluated on: {dropped}")
    if imported.topics_merged:
        write(f"{imported.topics_merged} topics repeat an earlier one: merged")
    if repeats := imported.repeats:
        write(
            f"{repeats.get('duplicate', 0)} rows repeat an earlier one, "
            f"{repeats.get('contradicting', 0)} say something else of the same text: all are kept"
        )
    if imported.pairs_left_out:
        limits = "data.min_gap, pairs_per_topic and max_pairs"
        write(f"{imported.pairs_left_out} pairs are left out by the plan's {limits}")
    rows = f"{imported.topics} topics, {imported.statements} statements, {imported.pairs} pairs"
    write(f"{rows}; go on with")
    write(f"    {imported.next_command}")
