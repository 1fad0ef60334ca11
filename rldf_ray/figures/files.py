"""Figures as files: the same drawing as PNG and SVG, on white; equal data give equal bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

# Mid-tones with a contrast of at least 3 to white and to near-black, apart for the colour-blind.
PALETTE = ("#7d8590", "#2f81c4", "#d1731f", "#2a9a72", "#b85c9e", "#8a76d8", "#9a8624")
INK = "#1c2128"
QUIET = "#59636e"
DPI = 160

_SETTINGS: dict[Any, Any] = {
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10.0,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "grid.alpha": 0.25,
    "grid.color": QUIET,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "rldf_ray",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": INK,
    "ytick.color": INK,
}


@contextmanager
def drawn(stem: Path, width: float, height: float) -> Iterator[Figure]:
    """An empty figure of `width` x `height` inches; at the end of the block it is written.

    Args:
        stem: the files' path without .png and .svg; its folder is made.
    """
    stem.parent.mkdir(parents=True, exist_ok=True)
    # Whatever the reader's own matplotlibrc says, the figures are the same.
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        yield figure
        for path, metadata in (
            (files_of(stem)[0], {"Software": None}),
            (files_of(stem)[1], dict.fromkeys(("Creator", "Date", "Format", "Type"))),
        ):
            figure.savefig(path, dpi=DPI, metadata=metadata)


def files_of(stem: Path) -> tuple[Path, Path]:
    """Where `drawn` writes: PNG and SVG."""
    return stem.with_name(f"{stem.name}.png"), stem.with_name(f"{stem.name}.svg")
