"""Accuracy on ambiguous against accuracy on disambiguated items, a line a method.

A line runs over the abstention threshold, the margin from which on a method answers "unknown"; the
marker is the method as it is. Markers far apart on one line are one model that abstains more or
less; a line further up and right is a model that separates the two kinds of items better. Thin
lines join what has the same overall accuracy, where there are as many items of each kind.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rldf_ray.evaluate.bbq.unknown import Margin, accuracies_by_threshold
from rldf_ray.figures.files import PALETTE, QUIET, drawn
from rldf_ray.report.figures import MARKERS

BBQ = "bbq"
LEGEND_WIDTH = 24

NEEDED = ("set", "method", "condition", "label", "unknown", "correct", "scores")


@dataclass(frozen=True, slots=True)
class AnsweredItem:
    """What a method makes of an item, and whether its answer was right."""

    margin: Margin
    correct: bool


Methods = Mapping[str, Sequence[AnsweredItem]]
"""Method -> the items of all its repeats."""


def answered_of(items: Iterable[Mapping[str, Any]]) -> Methods:
    """Methods whose answers to all of their items have scores, and items of both conditions.

    Args:
        items: `NEEDED` each (scores None without), an item of every repeat; other sets than BBQ are
            left out.
    """
    items_of: dict[str, list[AnsweredItem]] = {}
    without = set()
    for row in items:
        if row["set"] != BBQ:
            continue
        # Comparisons of before have no scores among their items.
        scores = row.get("scores")
        if scores is None:
            without.add(row["method"])
            continue
        margin = Margin.of(row["condition"], row["label"], row["unknown"], scores)
        items_of.setdefault(row["method"], []).append(AnsweredItem(margin, row["correct"]))
    return {
        method: answered
        for method, answered in items_of.items()
        if method not in without and len({a.margin.ambiguous for a in answered}) == 2
    }


def draw_abstention(methods: Methods, titles: Mapping[str, str], stem: Path) -> None:
    """The figure as PNG and SVG.

    Args:
        titles: what the legend calls a method; its own name by default.
        stem: the files' path without .png and .svg.
    """
    with drawn(stem, 6.6, 4.2) as figure:
        axes: Any = figure.add_subplot()
        for overall in np.arange(0.1, 1.0, 0.1):
            axes.plot([0, 2 * overall], [2 * overall, 0], color=QUIET, linewidth=0.5, alpha=0.25)
        for place, (method, items) in enumerate(methods.items()):
            colour, marker = PALETTE[place % len(PALETTE)], MARKERS[place % len(MARKERS)]
            name = "\n".join(textwrap.wrap(titles.get(method, method), LEGEND_WIDTH))
            ambiguous, disambiguated = accuracies_by_threshold([a.margin for a in items])
            again = "--" if place >= len(PALETTE) else "-"
            axes.plot(disambiguated, ambiguous, color=colour, linewidth=1.4, linestyle=again)
            had = [_accuracy(items, False)], [_accuracy(items, True)]
            axes.plot(*had, color=colour, marker=marker, markersize=8, linestyle="", label=name)
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1.02)
        axes.set_xlabel("accuracy on disambiguated items")
        axes.set_ylabel("accuracy on ambiguous items")
        axes.set_title("Marker: as it is. Line: had it said “unknown” more or less readily")
        figure.legend(loc="outside right center")


def _accuracy(answered: Sequence[AnsweredItem], ambiguous: bool) -> float:
    right = [a.correct for a in answered if a.margin.ambiguous == ambiguous]
    return sum(right) / len(right)
