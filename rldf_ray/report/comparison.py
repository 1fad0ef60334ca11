"""Figures 5, 6 and 7 of the paper for a comparison of methods, and one of abstention thresholds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rldf_ray.figures.files import files_of
from rldf_ray.report.abstention import Methods, draw_abstention
from rldf_ray.report.cases import cases_of, cases_page
from rldf_ray.report.radar import LEAST_SPOKES, draw_radar, lines_of, spokes_of
from rldf_ray.storage.run_folder import RunFolder

JUDGED = "answers"
"""The set of a judge's figures."""
RADARS = {
    "CE": (5, "Communication effectiveness"),
    "LS": (6, "Logical soundness"),
}
CASES = "figure-7-cases.html"

Rows = Sequence[Mapping[str, Any]]


def write_figures(
    answered: Methods, results: Rows, texts: Rows, titles: Mapping[str, str], out: Path
) -> list[str]:
    """Charts and the case study page into `out`; returns what was written, or why not.

    Args:
        answered: BBQ's items: see `abstention.answered_of`.
        results: method, repeat, set, group, measure, value: see `radar.lines_of`.
        texts: answers to the same questions: see `cases.cases_of`.
        titles: what methods are called; their own names by default.
    """
    folder = RunFolder(out)
    lines = [_radar(results, titles, measure, out) for measure in RADARS]
    lines.append(_abstention(answered, titles, out))
    cases = cases_of(texts)
    if not cases:
        return [*lines, "Figure 7: not drawn, there is no question that all methods answered"]
    folder.write_text(CASES, cases_page(cases, titles))
    return [*lines, f"Figure 7: {out / CASES}"]


def _abstention(answered: Methods, titles: Mapping[str, str], out: Path) -> str:
    if not answered:
        return (
            "Abstention thresholds: not drawn, no method's answers to BBQ have scores of their "
            "options"
        )
    stem = out / "abstention"
    draw_abstention(answered, titles, stem)
    return f"Abstention thresholds: {files_of(stem)[0]}"


def _radar(results: Rows, titles: Mapping[str, str], measure: str, out: Path) -> str:
    number, title = RADARS[measure]
    unordered = lines_of(results, measure, JUDGED)
    # In the order of the tables, as far as methods are in them.
    lines = {name: unordered[name] for name in [*titles, *unordered] if name in unordered}
    if not lines:
        return f"Figure {number}: not drawn, no judge scored {measure}"
    if len(spokes_of(lines)) < LEAST_SPOKES:
        return (
            f"Figure {number}: not drawn, a radar chart needs {LEAST_SPOKES} bias types, there "
            f"are {', '.join(spokes_of(lines))}"
        )
    stem = out / f"figure-{number}-{measure.lower()}"
    draw_radar(lines, titles, title, stem)
    return f"Figure {number}: {files_of(stem)[0]}"
