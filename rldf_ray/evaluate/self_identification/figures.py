"""Figures 1 and 2 of the paper: biases named under each framing, and where attention goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from rldf_ray.figures.files import PALETTE, QUIET, drawn

LABELS = {"own": "its own", "another": "another model's", "competitor": "a competitor's"}
PLACES = {
    "answer": "from the answer shown",
    "reply": "from where the reply begins",
}


def draw_named(summary: Mapping[str, Any], stem: Path) -> None:
    """Mean number of biases named by framing, with 95 % intervals; biased and fair answers apart.

    Args:
        summary: of `self_identification_summary`.
        stem: the files' path without .png and .svg.
    """
    known = summary["known"]
    series = {"all answers": {name: f["named"] for name, f in summary["framings"].items()}}
    if known is not None:
        series |= {"biased answers": known["biased"], "fair answers": known["fair"]}
    with drawn(stem, 5.6, 3.2) as figure:
        axes = figure.add_subplot()
        for place, (label, estimates) in enumerate(series.items()):
            offset = 0.22 * (place - (len(series) - 1) / 2)
            _draw_estimates(axes, estimates, offset, label, PALETTE[place + 1], "osD"[place])
        axes.set_xticks(range(len(LABELS)), list(LABELS.values()))
        axes.set_xlim(-0.6, len(LABELS) - 0.4)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("biases named in an answer")
        axes.set_xlabel("the answer is shown as")
        axes.grid(axis="y")
        axes.set_axisbelow(True)
        if len(series) > 1:
            figure.legend(loc="outside upper center", ncols=3)


def _draw_estimates(
    axes: Axes,
    estimates: Mapping[str, Mapping[str, Any] | None],
    offset: float,
    label: str,
    colour: str,
    marker: str,
) -> None:
    known = [(x, e) for x, name in enumerate(LABELS) if (e := estimates[name]) is not None]
    for x, estimate in known:
        if estimate["low"] is not None:
            ends = [estimate["low"], estimate["high"]]
            axes.plot([x + offset] * 2, ends, color=colour, linewidth=2.2, alpha=0.6)
    axes.plot(
        [x + offset for x, _ in known],
        [estimate["value"] for _, estimate in known],
        linestyle="none",
        marker=marker,
        color=colour,
        label=label,
        clip_on=False,
    )


def draw_attention(
    masses: Mapping[tuple[str, str], NDArray[np.float64]], spans: Sequence[str], stem: Path
) -> None:
    """Heat maps of attention, layer by span: the mass where the answer is shown as one's own, and
    what the other framings change of it; a row of panels for each place.

    The first token takes much of the mass, whatever is written there; colours therefore end at the
    highest of the other spans. Numbers above the columns are means over layers.

    Args:
        masses: (place, framing) -> [layer, span], in [0, 1].
        stem: the files' path without .png and .svg.
    """
    changes = {
        (place, framing): mass - masses[place, "own"]
        for (place, framing), mass in masses.items()
        if framing != "own"
    }
    others = [place for place, span in enumerate(spans) if span != "first token"]
    highest = max(float(masses[place, "own"][:, others].max()) for place in PLACES)
    widest = max(float(np.abs(change[:, others]).max()) for change in changes.values()) or 1e-9
    of_mass: dict[str, Any] = {"cmap": "viridis", "vmin": 0.0, "vmax": highest}
    of_change: dict[str, Any] = {"cmap": "RdBu_r", "vmin": -widest, "vmax": widest}
    with drawn(stem, 9.2, 7.2) as figure:
        panels = figure.subplots(len(PLACES), len(LABELS), sharex=True, sharey=True)
        for row, (place, place_title) in enumerate(PLACES.items()):
            own = _draw_panel(panels[row][0], masses[place, "own"], spans, ".2f", of_mass)
            panels[row][0].set_title(
                f"{place_title},\nshown as {LABELS['own']}", fontsize=8.5, pad=14
            )
            panels[row][0].set_ylabel("layer")
            for axes, framing in zip(panels[row][1:], list(LABELS)[1:], strict=True):
                change = _draw_panel(axes, changes[place, framing], spans, "+.3f", of_change)
                title = f"{place_title},\nshown as {LABELS[framing]}: change"
                axes.set_title(title, fontsize=8.5, pad=14)
        for image, what in ((change, "change against its own"), (own, "attention mass, its own")):
            figure.colorbar(image, ax=panels, shrink=0.5).set_label(what)


def _draw_panel(
    axes: Axes, values: NDArray[np.float64], spans: Sequence[str], form: str, colours: Any
) -> Any:
    image = axes.imshow(values, aspect="auto", **colours)
    axes.set_xticks(range(len(spans)), list(spans), rotation=40, ha="right")
    axes.spines[:].set_color(QUIET)
    for column, mean in enumerate(values.mean(axis=0)):
        place: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": 7, "color": QUIET}
        axes.text(column, -0.9, f"{mean:{form}}", **place)
    return image
