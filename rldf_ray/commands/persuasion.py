"""`rldf persuasion`: what is made of a finished study of persuasion."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rldf_ray.console import write
from rldf_ray.storage.run_folder import RunFolder

if TYPE_CHECKING:
    from rldf_ray.studies.plans import LoadedStudy

app = typer.Typer(help="A finished study of persuasion.", no_args_is_help=True)

Study = Annotated[str, typer.Argument(metavar="DIR", help="the study's folder")]


@app.command()
def sheet(
    study: Study,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="gets for_raters/ and the key")],
    questions: Annotated[
        int | None,
        typer.Option("--questions", min=1, help="a debate on each of this many, by seed"),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="of sample, order and positions")] = 0,
) -> None:
    """Write a blind sheet for people, as CSV and as a page that needs no server.

    It has one debate or consultancy on each question; another seed draws others.
    """
    from rldf_ray.evaluate.people import debates
    from rldf_ray.protocols.item_sets import ranked
    from rldf_ray.protocols.persuasion.finished import finished
    from rldf_ray.protocols.persuasion.folder import study_data

    folder, _ = _finished(study)
    held = study_data(folder)
    taken = {item.item_id for item in ranked(held.items, seed)[:questions]}
    dialogues = finished(held.items, held.tables).values()
    made = debates.debate_sheet(
        _key(folder),
        debates.one_of_each((one for one in dialogues if one.item.item_id in taken), seed),
        seed,
    )
    debates.write_sheet(made, RunFolder(out.resolve()))
    write(f"{len(made.shown)} debates; give every rater one of these two:")
    for path in (debates.SHEET, debates.FORM):
        write(f"  {out / path}")
    write(f"and keep from them which debate is which: {out / debates.KEY}")


@app.command()
def verdicts(
    study: Study,
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="sheets that came back")],
    key: Annotated[
        Path, typer.Option("--key", metavar="FILE", help="the key.parquet beside for_raters/")
    ],
) -> None:
    """Take in what people said; tables and figures get their column. Twice changes nothing."""
    from rldf_ray.evaluate.people import debates
    from rldf_ray.protocols.persuasion.finished import finished
    from rldf_ray.protocols.persuasion.folder import study_data
    from rldf_ray.protocols.persuasion.records import PEOPLE
    from rldf_ray.studies.reporting import report_again

    # Before it is locked, which makes a folder.
    folder, loaded = _finished(study)
    with folder.locked():
        held = study_data(folder)
        codes = debates.read_debate_key(key, _key(folder))
        now = debates.read_verdicts(files, codes, finished(held.items, held.tables))
        place = "data/people.parquet"
        there = folder.path(place).exists()
        before = folder.read_table(place, PEOPLE) if there else PEOPLE.empty_table()
        every = debates.merged(before.to_pylist(), now)
        if every.equals(before):
            write(f"nothing new in {len(now)} verdicts")
            return
        folder.write_table(place, every)
        report_again("persuasion", loaded, held.items, folder)
    write(f"{every.num_rows} verdicts of people; report: {folder.address('report.html')}")


def _finished(study: str) -> tuple[RunFolder, LoadedStudy]:
    """A finished study's folder, and its plan."""
    from rldf_ray.studies.finished import finished_study

    folder = RunFolder.at(study)
    _, loaded = finished_study(folder, ["persuasion"])
    return folder, loaded


def _key(folder: RunFolder) -> str:
    folder.fetched("study.json")
    return str(folder.read_object("study.json", ("key",))["key"])
