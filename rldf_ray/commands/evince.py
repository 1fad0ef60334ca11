"""`rldf evince`: a finished study of EVINCE, decided by people, or steered again on paper."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from rldf_ray.console import table_console, write
from rldf_ray.storage.json_text import json_text
from rldf_ray.storage.run_folder import RunFolder

if TYPE_CHECKING:
    from rldf_ray.protocols.evince.results import Results
    from rldf_ray.studies.plans import LoadedStudy

app = typer.Typer(help="A finished study of EVINCE.", no_args_is_help=True)

Study = Annotated[str, typer.Argument(metavar="DIR", help="the study's folder")]
AsJSON = Annotated[bool, typer.Option("--json", help="print JSON instead of a table")]


@app.command()
def decide(
    study: Study,
    sheet: Annotated[Path, typer.Argument(metavar="SHEET", help="a filled-in review.csv")],
    as_json: AsJSON = False,
) -> None:
    """Take in what people decided; no model is asked. The same sheet twice changes nothing."""
    from rldf_ray.protocols.evince.folder import take_in

    folder = RunFolder.at(study)
    # Before it is locked, which makes a folder.
    loaded = _plan(folder, [])
    with folder.locked():
        results = _results(folder, loaded)
        decided = take_in(folder, results, sheet, loaded.plan.name)
    if as_json:
        write(json_text([dict(row) for row in decided], indent=2))
        return
    shown = Table("item", "the dialogue's", "decision", "label", box=None)
    for row in decided:
        what = row["decision"] or f"without {', '.join(row['reject'])}"
        shown.add_row(row["item_id"], row["label"] or "–", what, " and ".join(row["final"]))
    table_console().print(shown)
    write(f"report: {folder.address('remediation.html')}")


@app.command()
def replay(
    study: Study,
    set_: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="FIELD=VALUE",
            help="another rule, as settings.stop.wd=0.1 or settings.steering.controller=schedule",
        ),
    ] = [],  # noqa: B006
    as_json: AsJSON = False,
) -> None:
    """How the recorded dialogues end, and at what levels, under other rules; no model is asked."""
    folder = RunFolder.at(study)
    results = _results(folder, _plan(folder, set_))
    rows = _replayed(results)
    if as_json:
        write(json_text(rows, indent=2))
        return
    shown = Table("item", "arm", "ended", "after", "would end", "after", "levels", box=None)
    for row in rows:
        levels = " ".join(f"{level:.2f}" for level in row["levels"])
        ended = [str(row["status"]), str(row["rounds"])]
        again = [row["status_again"] or "goes on", str(row["rounds_again"])]
        shown.add_row(row["item_id"], row["arm"], *ended, *again, levels)
    table_console().print(shown)
    changed = Counter((row["status"], row["status_again"] or "goes on") for row in rows)
    for (before, after), number in changed.most_common():
        write(f"{number} {before} -> {after}")
    failed = sum(
        row["status"] == "failed" for arm in results.arms for row in results.outcomes[arm].values()
    )
    if failed:
        write(f"not replayed, as they failed: {failed}")


def _replayed(results: Results) -> list[dict[str, Any]]:
    from rldf_ray.protocols.evince.arms import arm_settings
    from rldf_ray.protocols.evince.records import trace_of
    from rldf_ray.protocols.evince.replay import replayed

    rows = []
    for (item_id, arm), rounds in results.rounds.items():
        held = results.outcomes[arm][item_id]
        if held["status"] == "failed":
            continue
        settings = arm_settings(results.settings, arm)
        found = replayed(trace_of(rounds), settings.steering, settings.stop, results.scale)
        rows.append(
            {
                "item_id": item_id,
                "arm": arm,
                "status": held["status"],
                "rounds": held["rounds"],
                "status_again": found.status,
                "rounds_again": found.rounds,
                "levels": found.levels,
            }
        )
    return rows


def _plan(folder: RunFolder, overrides: list[str]) -> LoadedStudy:
    """A finished study's plan, with other rules where there are any."""
    from rldf_ray.studies.finished import finished_study

    _, loaded = finished_study(folder, ["evince"], overrides)
    return loaded


def _results(folder: RunFolder, loaded: LoadedStudy) -> Results:
    """What a finished study holds."""
    from rldf_ray.protocols.evince.folder import results_in

    return results_in(folder, loaded.settings, loaded.plan.seed)
