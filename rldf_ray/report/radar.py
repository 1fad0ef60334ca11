"""Radar charts (paper, Figures 5 and 6): one spoke a bias type, one line a method."""

from __future__ import annotations

import math
import statistics
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rldf_ray.figures.files import PALETTE, drawn
from rldf_ray.report.figures import MARKERS

ALL = "all"
LEAST_SPOKES = 3
SMALLEST_WIDTH = 0.004
LEGEND_WIDTH = 20


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean over the repeats and their standard deviation (None for a single one)."""

    mean: float
    sd: float | None = None


Lines = Mapping[str, Mapping[str, Spread]]
"""Method -> bias type -> figure; a type that was not measured for a method is left out."""


def lines_of(rows: Iterable[Mapping[str, Any]], measure: str, set_: str) -> Lines:
    """The figures of a measure in a set, methods and bias types in the order of their first rows.

    Args:
        rows: method, repeat, set, group, measure and value each, one row a repeat.
        measure: its name, whatever the case ("CE", "ce").
    """
    values_of: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        wanted = row["set"] == set_ and row["measure"].upper() == measure.upper()
        if not wanted or row["group"] == ALL:
            continue
        if row["value"] is not None and math.isfinite(row["value"]):
            groups = values_of.setdefault(row["method"], {})
            groups.setdefault(row["group"], []).append(row["value"])
    return {
        method: {group: _spread(values) for group, values in groups.items()}
        for method, groups in values_of.items()
    }


def _spread(values: Sequence[float]) -> Spread:
    return Spread(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None)


def spokes_of(lines: Lines) -> list[str]:
    """The bias types that any method has."""
    return list(dict.fromkeys(group for groups in lines.values() for group in groups))


def draw_radar(lines: Lines, titles: Mapping[str, str], title: str, stem: Path) -> None:
    """The chart as PNG and SVG.

    The centre is not 0 but a round number below the lowest figure, which the title gives, as
    methods would lie on top of each other otherwise. Bars show the standard deviation.

    Args:
        titles: what the legend calls a method; its own name by default.
        stem: the files' path without .png and .svg.

    Raises:
        ValueError: fewer than three bias types have figures.
    """
    spokes = spokes_of(lines)
    if len(spokes) < LEAST_SPOKES:
        raise ValueError(f"a radar chart needs {LEAST_SPOKES} bias types, found {len(spokes)}")
    angles = 2 * np.pi * np.arange(len(spokes)) / len(spokes)
    low, high, step = limits_of(lines)
    with drawn(stem, 7.2, 4.6) as figure:
        # The layout that finds room by itself leaves none for the names around a polar axis.
        figure.set_layout_engine("none")
        axes: Any = figure.add_axes((0.14, 0.1, 0.46, 0.72), projection="polar")
        axes.set_theta_zero_location("N")
        axes.set_theta_direction(-1)
        for place, (method, spreads) in enumerate(lines.items()):
            colour = PALETTE[place % len(PALETTE)]
            _draw_line(axes, angles, [spreads.get(name) for name in spokes], colour, place)
            name = "\n".join(textwrap.wrap(titles.get(method, method), LEGEND_WIDTH))
            axes.plot([], [], color=colour, marker=_marker(place), label=name)
        axes.set_xticks(angles, [name.replace("_", " ").capitalize() for name in spokes])
        for label, angle in zip(axes.get_xticklabels(), angles, strict=True):
            side = round(math.sin(angle), 6)
            label.set_horizontalalignment("left" if side > 0 else "right" if side < 0 else "center")
        axes.set_ylim(low, high)
        axes.set_yticks(np.arange(low, high + step / 2, step))
        axes.tick_params(axis="y", labelsize=7.5)
        axes.set_rlabel_position(180 / len(spokes))
        axes.spines["polar"].set_alpha(0.3)
        axes.set_title(f"{title} (centre {low:g}, rim {high:g})", pad=14)
        figure.legend(loc="center left", bbox_to_anchor=(0.72, 0.5))


def _draw_line(
    axes: Any,
    angles: np.ndarray[Any, Any],
    spreads: Sequence[Spread | None],
    colour: str,
    place: int,
) -> None:
    """One closed line, broken where nothing was measured."""
    means = [math.nan if spread is None else spread.mean for spread in spreads]
    axes.plot(
        [*angles, angles[0]],
        [*means, means[0]],
        color=colour,
        marker=_marker(place),
        markersize=4.5,
        linewidth=1.6,
        clip_on=False,
    )
    for angle, spread in zip(angles, spreads, strict=True):
        if spread is not None and spread.sd:
            ends = [spread.mean - spread.sd, spread.mean + spread.sd]
            axes.plot([angle] * 2, ends, color=colour, linewidth=3.0, alpha=0.35)


def _marker(place: int) -> str:
    return MARKERS[place % len(MARKERS)]


def limits_of(lines: Lines) -> tuple[float, float, float]:
    """Centre, rim and the distance of the rings: round numbers around every figure and its bar."""
    spreads = [spread for line in lines.values() for spread in line.values()]
    lowest = min(spread.mean - (spread.sd or 0.0) for spread in spreads)
    highest = max(spread.mean + (spread.sd or 0.0) for spread in spreads)
    width = highest - lowest
    # Figures that hardly differ are drawn as what they are: alike.
    rough = width / 4 if width > SMALLEST_WIDTH else max(abs(highest), 1.0) / 10
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * nice for nice in (1, 2, 5, 10) if power * nice >= rough)
    low, high = math.floor(lowest / step), math.ceil(highest / step)
    if low == high:
        high += 1
    # Nothing lies on the centre, where all spokes meet.
    if low > 0 and lowest <= low * step + 0.15 * step:
        low -= 1
    return round(low * step, 10), round(high * step, 10), step
