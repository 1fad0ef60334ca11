"""Figures of the report: numbers in, inline SVG out. Equal numbers give equal bytes.

A figure has no background of its own and its ink is `currentColor`, so it is as legible on a dark
page as on a light one. Its `aria-label` has the same figures in words.
"""

from __future__ import annotations

import html
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from rldf_ray.figures.files import PALETTE

MARKERS = ("o", "s", "D", "^", "v", "P", "X", "<")
"""One more than there are colours, so that no two of many series have the same of both."""
INK = "#010203"
WIDTH = 4.5
LONGEST_NAME = 26
MARKED_POINTS = 40
SMOOTHED_POINTS = 60


@dataclass(frozen=True, slots=True)
class Dot:
    """A value and, where it is known, its interval."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Dots:
    """One series of `dot_plot`: row -> estimate. A row that it lacks has no dot."""

    label: str
    values: Mapping[str, Dot]


@dataclass(frozen=True, slots=True)
class Curve:
    """One series of `line_plot`: points (x, y) in the order of x."""

    label: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """What an axis measures.

    Attributes:
        reference: a value that is marked with a broken line.
        whole: the ticks of an x axis are whole numbers.
    """

    label: str
    limits: tuple[float, float] | None = None
    percent: bool = False
    reference: float | None = None
    whole: bool = True


def dot_plot(name: str, title: str, rows: Sequence[str], series: Sequence[Dots], axis: Axis) -> str:
    """Rows from top to bottom, one dot a series in each, a bar where the interval is known.

    Args:
        name: unique on the page; the ids inside the SVG begin with it.
        title: begins the text that stands for the figure.
    """
    with _canvas(0.95 + len(rows) * max(0.34, 0.17 * len(series))) as (figure, axes):
        for place, dots in enumerate(series):
            offset = 0.6 * ((place + 0.5) / len(series) - 0.5)
            _draw_dots(axes, rows, dots, place, offset)
        axes.set_yticks(range(len(rows)), [_short(row) for row in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlabel(axis.label)
        axes.grid(axis="x")
        if axis.limits:
            axes.set_xlim(*axis.limits)
        if axis.percent:
            axes.xaxis.set_major_formatter(PercentFormatter(1.0))
        if axis.reference is not None:
            axes.axvline(axis.reference, color=INK, alpha=0.6, linewidth=1, linestyle=(0, (4, 3)))
        _legend(figure, axes, len(series))
        return _inline(figure, name, _dots_in_words(title, rows, series, axis))


def line_plot(name: str, title: str, curves: Sequence[Curve], x: Axis, y: Axis) -> str:
    """Curves over steps or rounds; a long one is drawn faint under its running mean.

    Args:
        name: unique on the page; the ids inside the SVG begin with it.
        title: begins the text that stands for the figure.
    """
    with _canvas(2.75) as (figure, axes):
        # With one curve the colour means nothing; the first of the palette is the base model's.
        shift = 1 if len(curves) == 1 else 0
        for place, curve in enumerate(curves, start=shift):
            _draw_curve(axes, curve, place)
        axes.set_xlabel(x.label)
        axes.set_ylabel(y.label)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=x.whole))
        axes.yaxis.set_major_locator(MaxNLocator(nbins=6))
        axes.grid(axis="y")
        if y.limits:
            axes.set_ylim(*y.limits)
        _legend(figure, axes, len(curves))
        return _inline(figure, name, _curves_in_words(title, curves, x))


def running_mean(values: Sequence[float], window: int) -> list[float]:
    """The mean of each value and the up to `window - 1` values before it."""
    spans = (values[max(0, end - window) : end] for end in range(1, len(values) + 1))
    return [math.fsum(span) / len(span) for span in spans]


def _draw_dots(axes: Axes, rows: Sequence[str], dots: Dots, place: int, offset: float) -> None:
    style = _style(place)
    known = [(row, dots.values[name]) for row, name in enumerate(rows) if name in dots.values]
    for row, estimate in known:
        if estimate.low is not None and estimate.high is not None:
            ends = [estimate.low, estimate.high]
            axes.plot(
                ends,
                [row + offset] * 2,
                color=style["color"],
                linewidth=2.2,
                alpha=0.6,
                clip_on=False,
            )
    axes.plot(
        [estimate.value for _, estimate in known],
        [row + offset for row, _ in known],
        linestyle="none",
        markersize=6,
        clip_on=False,  # a dot at 0 % or 100 % is drawn whole
        label=_short(dots.label),
        **style,
    )


def _draw_curve(axes: Axes, curve: Curve, place: int) -> None:
    xs, ys = [x for x, _ in curve.points], [y for _, y in curve.points]
    style = _style(place)
    if len(xs) > SMOOTHED_POINTS:
        axes.plot(xs, ys, color=style["color"], linewidth=0.8, alpha=0.4)
        ys = running_mean(ys, max(2, len(ys) // 20))
    if len(xs) > MARKED_POINTS:
        style["marker"] = "none"
    axes.plot(xs, ys, linewidth=1.8, markersize=4.5, label=_short(curve.label), **style)


def _style(place: int) -> dict[str, Any]:
    return {"color": PALETTE[place % len(PALETTE)], "marker": MARKERS[place % len(MARKERS)]}


def _legend(figure: Figure, axes: Axes, series: int) -> None:
    if series > 1:
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=3, frameon=False)


@contextmanager
def _canvas(height: float) -> Iterator[tuple[Figure, Axes]]:
    settings: dict[Any, Any] = {
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],
        "font.size": 10.0,
        "grid.alpha": 0.18,
        "grid.color": INK,
        "legend.columnspacing": 1.2,
        "legend.handletextpad": 0.4,
        "svg.fonttype": "none",
        "svg.hashsalt": "rldf_ray",
        "text.color": INK,
        "text.parse_math": False,
        "xtick.color": INK,
        "ytick.color": INK,
    }
    # Whatever the reader's own matplotlibrc says, the figures of a run are the same.
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(settings)
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        axes.set_axisbelow(True)
        yield figure, axes


def _inline(figure: Figure, name: str, words: str) -> str:
    """The figure as an `<svg>` element that can stand in a page beside others."""
    output = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(output, format="svg", transparent=True, metadata=nothing)
    text = output.getvalue()
    svg = text[text.index("<svg") :].rstrip()
    # Its style element would apply to the whole page; the root's style says the same of the figure.
    svg = re.sub(r"<style\b.*?</style>", "", svg, count=1, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = svg.replace("url(#", f"url(#{name}-").replace('href="#', f'href="#{name}-')
    svg = svg.replace(INK, "currentColor")
    opening, rest = svg.split(">", 1)
    opening = re.sub(r'\s(?:width|height|version|xmlns(?::\w+)?)="[^"]*"', "", opening)
    label = html.escape(words, quote=True)
    style = "stroke-linejoin: round; stroke-linecap: butt"
    return f'{opening} style="{style}" role="img" aria-label="{label}">{rest}'


def _dots_in_words(title: str, rows: Sequence[str], series: Sequence[Dots], axis: Axis) -> str:
    described = [
        f"{row}: " + ", ".join(_dot_in_words(dots, row, axis, len(series)) for dots in series)
        for row in rows
    ]
    return f"{title}. {'; '.join(described)}."


def _dot_in_words(dots: Dots, row: str, axis: Axis, series: int) -> str:
    name = f"{dots.label} " if series > 1 else ""
    estimate = dots.values.get(row)
    if estimate is None:
        return f"{name}not available"
    text = f"{name}{_number(estimate.value, axis)}"
    if estimate.low is None or estimate.high is None:
        return text
    return f"{text} ({_number(estimate.low, axis)} to {_number(estimate.high, axis)})"


def _number(value: float, axis: Axis) -> str:
    return f"{value:.1%}" if axis.percent else f"{value:.2f}"


def _curves_in_words(title: str, curves: Sequence[Curve], x: Axis) -> str:
    return f"{title}. " + "; ".join(_curve_in_words(curve, x) for curve in curves) + "."


def _curve_in_words(curve: Curve, x: Axis) -> str:
    (first_x, first), (last_x, last) = curve.points[0], curve.points[-1]
    if len(curve.points) == 1:
        return f"{curve.label}: {first:.3g} at {x.label} {first_x:g}"
    ys = [y for _, y in curve.points]
    return (
        f"{curve.label}: from {first:.3g} at {x.label} {first_x:g} to {last:.3g} at {last_x:g}, "
        f"lowest {min(ys):.3g}, highest {max(ys):.3g}"
    )


def _short(name: str) -> str:
    """A name that leaves room for the figure: its head and its tail."""
    # Matplotlib leaves a label with a leading underscore out of the legend.
    name = name.lstrip("_") or name
    if len(name) <= LONGEST_NAME:
        return name
    half = LONGEST_NAME // 2
    return f"{name[: half - 1]}\u2026{name[-half:]}"
