"""eval/referee.png: how well the referee separates, and whether its scores mean what they say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from rldf_ray.figures.files import PALETTE

CHANCE, REFEREE, WORDS = PALETTE[:3]
DPI = 150


def draw_referee(audit: Mapping[str, Any], target: Path) -> None:
    """Write the picture of an audit (audit.json) to `target`, as PNG."""
    figure = Figure(figsize=(9.0, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    _roc(left, audit)
    _calibration(right, audit)
    figure.savefig(target, format="png", dpi=DPI)


def _roc(axes: Axes, audit: Mapping[str, Any]) -> None:
    axes.plot([0, 1], [0, 1], color=CHANCE, linestyle=(0, (4, 3)), label="chance: 0.50")
    held_out = audit["held_out"]
    if held_out is not None:
        label = f"referee: {held_out['auc']:.2f}"
        if held_out["auc_low"] is not None:
            label += f" ({held_out['auc_low']:.2f} to {held_out['auc_high']:.2f})"
        xs, ys = zip(*audit["roc"], strict=True)
        axes.plot(xs, ys, color=REFEREE, linewidth=2, label=label)
    words = audit["bag_of_words"]
    title = "ROC curve, AUC with 95 % interval"
    if words is not None:
        title += f"\nbag of words on the same statements: {words['auc']:.2f}"
    axes.set(
        title=title,
        xlabel="share of fair statements at or above a score",
        ylabel="share of biased statements",
        xlim=(-0.01, 1.01),
        ylim=(-0.01, 1.01),
    )
    _finish(axes)


def _calibration(axes: Axes, audit: Mapping[str, Any]) -> None:
    axes.plot([0, 10], [0, 1], color=CHANCE, linestyle=(0, (4, 3)), label="calibrated")
    fifths = [fifth for fifth in audit["calibration"] if fifth["n"]]
    scores, shares = [f["mean_score"] for f in fifths], [f["share_biased"] for f in fifths]
    axes.plot(scores, shares, color=REFEREE, marker="o", linewidth=2, label="referee")
    for fifth in fifths:
        axes.annotate(
            f"n={fifth['n']}",
            (fifth["mean_score"], fifth["share_biased"]),
            xytext=(6, -12),
            textcoords="offset points",
            fontsize=8,
        )
    axes.set(
        title="Share of biased statements, by fifth of the scale",
        xlabel="mean score",
        ylabel="share biased",
        xlim=(-0.1, 10.1),
        ylim=(-0.05, 1.05),
    )
    _finish(axes)


def _finish(axes: Axes) -> None:
    axes.legend(frameon=False, loc="lower right" if axes.get_ylabel() != "share biased" else None)
    axes.grid(alpha=0.2)
    axes.spines[["top", "right"]].set_visible(False)
