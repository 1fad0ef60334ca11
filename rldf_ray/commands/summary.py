"""What a run's commands print at the end: the report's main table, its notes, the totals."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

from rldf_ray.console import Progress
from rldf_ray.storage.json_text import json_text
from rldf_ray.storage.run_folder import RunFolder

SCORES = {
    "accuracy": "accuracy",
    "accuracy_ambig": "ambig.",
    "accuracy_disambig": "disambig.",
    "s_amb": "s_AMB",
    "s_dis": "s_DIS",
}


def print_summary(out: str, progress: Progress, as_json: bool) -> None:
    """Of the report in the run folder `out`; as JSON, its evaluation."""
    folder = RunFolder.at(out)
    folder.fetched("report.json")
    report = folder.read_object("report.json", ("evaluation", "notes", "totals"))
    print_report(report, progress, as_json, page=folder.fetched("report.html"))


def print_report(
    report: Mapping[str, Any], progress: Progress, as_json: bool, page: Path | None = None
) -> None:
    """A report's main table, notes, totals and where its page is; as JSON, its evaluation."""
    evaluation = report["evaluation"]
    if as_json:
        print(json_text(evaluation, indent=2))
        return
    if evaluation is not None:
        progress.say(f"\n{evaluation['set']}")
        progress.console.print(evaluation_table(evaluation))
    for note in report["notes"]:
        progress.say(f"- {note}")
    totals = report["totals"]
    progress.say(
        f"{totals['seconds']:.0f} s in all, peak memory {totals['peak_pss_gib'] or 0:.1f} GiB (PSS)"
        + (f"; {page}" if page else "")
    )


def evaluation_table(evaluation: Mapping[str, Any]) -> Table:
    """A row a model, narrow enough for a terminal of 80 columns."""
    table = Table("model", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for name in (*SCORES.values(), "reward\n(own)", "perplexity"):
        table.add_column(name, justify="right", vertical="bottom")
    for name, model in evaluation["models"].items():
        own, neutral = model["reward"], (model["perplexity"] or {}).get("value")
        scores = _figures(model["multiple_choice"]["overall"])
        table.add_row(name, *scores, _figure(own and own["mean"]), _figure(neutral, 1))
    silent = evaluation["always_unknown"]
    if silent is not None:
        table.add_row("always unknown", *_figures(silent), "", "")
    return table


def _figures(scores: Mapping[str, float | None]) -> list[str]:
    return [_figure(scores[name]) for name in SCORES]


def _figure(value: float | None, digits: int = 3) -> str:
    return "n/a" if value is None else f"{value:.{digits}f}"
