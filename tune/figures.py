"""Figures 8-12 of the paper from a sweep: one page a bias type, a panel an axis, error bars."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure

from rldf_ray.figures.files import PALETTE

PAPER_PAGES = {"age": 8, "nationality": 9, "institution": 10, "beauty": 11, "profession": 12}


def write_pages(
    axes: Mapping[str, Any], names: Sequence[str], measure: str, out: Path
) -> list[Path]:
    """One PNG for every name that was measured, and all of them in figures.pdf.

    Args:
        axes: by axis, the points of each name (`outcome.outcome`).
        names: `overall` and the bias types.
    """
    out.mkdir(parents=True, exist_ok=True)
    written = []
    with PdfPages(out / "figures.pdf") as pdf:
        for name in names:
            if not any(axis["points"].get(name) for axis in axes.values()):
                continue
            page = _page(axes, name, measure)
            path = out / f"{_stem(name)}.png"
            page.savefig(path, dpi=120)
            pdf.savefig(page)
            written.append(path)
    return written


def _stem(name: str) -> str:
    number = PAPER_PAGES.get(name)
    return name if number is None else f"figure-{number}-{name}"


def _page(axes: Mapping[str, Any], name: str, measure: str) -> Figure:
    columns = min(2, len(axes))
    rows = math.ceil(len(axes) / columns)
    page = Figure(figsize=(4.4 * columns, 3.2 * rows), layout="constrained")
    FigureCanvasAgg(page)
    page.suptitle(_stem(name).replace("-", " ").capitalize())
    panels = page.subplots(rows, columns, squeeze=False).flat
    for panel, (axis, found) in zip(panels, axes.items(), strict=False):
        _panel(panel, axis, found["points"].get(name, []), measure)
    for panel in list(panels)[len(axes) :]:
        panel.set_visible(False)
    return page


def _panel(panel: Axes, axis: str, points: Sequence[Mapping[str, Any]], measure: str) -> None:
    """Values side by side in the grid's order; bars are the deviation over repeats."""
    places = range(len(points))
    panel.errorbar(
        places,
        [point["mean"] for point in points],
        yerr=[point["sd"] or 0.0 for point in points],
        marker="o",
        capsize=4,
        color=PALETTE[1],
    )
    panel.set_xticks(list(places), [str(point["value"]) for point in points])
    panel.set_xlabel(axis)
    panel.set_ylabel(measure)
    panel.grid(axis="y", alpha=0.3)
