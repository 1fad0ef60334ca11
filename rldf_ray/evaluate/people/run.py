"""What `rldf eval human` does once its options are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from rldf_ray.cluster.provenance import provenance
from rldf_ray.console import table_console, write
from rldf_ray.evaluate.judge.answers import AnswersError, read_answers, sampled
from rldf_ray.evaluate.judge.rubrics import MEASURES
from rldf_ray.evaluate.people.ratings import read_ratings
from rldf_ray.evaluate.people.sheet import (
    SheetError,
    blind_sheet,
    key_table,
    read_key,
    sheet_csv,
    sheet_form,
)
from rldf_ray.evaluate.people.summary import long_people, people_summary, rated_table
from rldf_ray.storage.json_text import json_text
from rldf_ray.storage.run_folder import RunFolder

FOR_RATERS = "for_raters"


def export(
    source: Path, out: Path, prompts: int | None, methods: Sequence[str] | None, seed: int
) -> None:
    """for_raters/sheet.csv, for_raters/form.html and key.parquet.

    Raises:
        AnswersError, LinesError, ParquetError: the answers cannot be read, or a method is not
            among them.
        SheetError: the folder holds another sheet's key, without which its ratings are lost.
    """
    answers = read_answers(source)
    known = list(dict.fromkeys(answer.method for answer in answers))
    unknown = sorted(set(methods or ()) - set(known))
    if unknown:
        raise AnswersError(f"--methods {', '.join(unknown)}; the answers have {', '.join(known)}")
    wanted = [answer for answer in answers if methods is None or answer.method in methods]
    sheet = blind_sheet(sampled(wanted, prompts, seed), seed)
    folder = RunFolder(out.resolve())
    if (folder.root / "key.parquet").exists() and read_key(out / "key.parquet").key != sheet.key:
        raise SheetError(f"{out} holds the key of another sheet: give another --out")
    folder.write_table("key.parquet", key_table(sheet))
    written = [
        folder.write_text(f"{FOR_RATERS}/sheet.csv", sheet_csv(sheet)),
        folder.write_text(f"{FOR_RATERS}/form.html", sheet_form(sheet)),
    ]
    write(f"{len(sheet.items)} answers; give every rater one of these two:")
    for path in written:
        write(f"  {path}")
    write(f"and keep from them who wrote what: {folder.root / 'key.parquet'}")


def imported(files: Sequence[Path], key: Path, out: Path, seed: int) -> dict[str, Any]:
    """eval/human.parquet, human_long.parquet and human.json; returns what the latter says.

    Raises:
        SheetError: the key or a sheet is wrong; nothing is written.
    """
    sheet = read_key(key)
    ratings = read_ratings(files, sheet)
    folder = RunFolder(out.resolve())
    written = folder.write_table("eval/human.parquet", rated_table(sheet, ratings))
    folder.write_table("eval/human_long.parquet", long_people(sheet, ratings))
    summary = (
        people_summary(sheet, ratings, seed)
        | {"seed": seed, "written": str(written)}
        | provenance()
    )
    folder.write_json("eval/human.json", summary)
    return summary


def leave(summary: Mapping[str, Any], as_json: bool) -> None:
    """Print JSON or the tables."""
    if as_json:
        print(json_text(summary, indent=2))
        return
    console = table_console()
    scores = Table("method", *MEASURES, "answers", title="people's scores; BS: lower is better")
    for method, estimates in summary["methods"].items():
        number = max(one["n"] for one in estimates.values())
        scores.add_row(
            method, *(_interval(estimates[measure]) for measure in MEASURES), str(number)
        )
    console.print(scores)
    agreed = Table("", "raters", "Fleiss' kappa", "answers", "Krippendorff's alpha", "answers")
    for measure, one in summary["agreement"].items():
        kappa, alpha = _figure(one["kappa"], 3), _figure(one["alpha"], 3)
        items = str(one["kappa_items"]), str(one["alpha_items"])
        agreed.add_row(measure, str(one["raters"]), kappa, items[0], alpha, items[1])
    console.print(agreed)
    if summary["empty"]:
        console.print(f"{summary['empty']} scores are missing", markup=False)
    console.print(f"every score: {summary['written']}", markup=False)


def _interval(one: Mapping[str, Any]) -> str:
    interval = "" if one["low"] is None else f" ({one['low']:.1f} to {one['high']:.1f})"
    return f"{_figure(one['mean'], 1)}{interval}"


def _figure(value: float | None, digits: int) -> str:
    return "n/a" if value is None else f"{value:.{digits}f}"
