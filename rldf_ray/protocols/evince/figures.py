"""Figures 2, 3 and 4 in form: the triangle of distances, raters' labels, metrics by round."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from itertools import combinations
from typing import Any

from matplotlib.patches import Patch

from rldf_ray.figures.files import PALETTE, QUIET
from rldf_ray.protocols.evince.metrics import wasserstein
from rldf_ray.protocols.evince.results import Results
from rldf_ray.protocols.study import StudyFigure

MOST_RATERS = 5
"""People whose labels are drawn apart; of more, all are drawn together."""


def triangle_figure(results: Results) -> StudyFigure | None:
    """Figure 2: the sums of distances of two people and the dialogue, drawn to scale.

    Sums of distances always close to a triangle.
    """
    people = _pair(results)
    if people is None:
        return None
    sides = {t: found for t in results.targets if (found := _sides(results, people, t))}
    if not sides:
        return None

    def draw(figure: Any) -> None:
        axes = figure.subplots(1, len(sides), squeeze=False)[0]
        for place, (target, (dr, ds, sr)) in zip(axes, sides.items(), strict=True):
            x = (ds**2 - sr**2 + dr**2) / (2 * dr) if dr else 0.0
            y = math.sqrt(max(0.0, ds**2 - x**2))
            place.plot([0, dr, x, 0], [0, 0, y, 0], color=PALETTE[0], marker="o")
            for name, at, shift in (
                (people[0], (0, 0), -12),
                (people[1], (dr, 0), -12),
                ("dialogue", (x, y), 6),
            ):
                place.annotate(name, at, xytext=(0, shift), textcoords="offset points", ha="center")
            place.set_title(
                f"{target or 'all'}: {dr:.4g} between people,\n"
                f"{ds:.4g} and {sr:.4g} to the dialogue",
                fontsize=9,
            )
            place.set_aspect("equal")
            place.margins(0.25, 0.35)
            place.axis("off")

    return StudyFigure(
        name="triangle",
        title="Sums of distances in steps, of the two people who rated most texts together and the "
        "dialogue (form of Figure 2)",
        draw=draw,
        width=3.4 * len(sides),
        height=3.2,
    )


def _pair(results: Results) -> tuple[str, str] | None:
    """The two people who rated most items together; of equal pairs the one met first."""
    counted = Counter(
        pair
        for item in results.items.values()
        for pair in combinations([who for who in results.people if who in item.raters], 2)
    )
    return max(counted, key=lambda pair: counted[pair], default=None)


def _sides(
    results: Results, people: tuple[str, str], target: str
) -> tuple[float, float, float] | None:
    """DR, DS and SR over the items that all three labelled."""
    every = [
        (results.rating(people[0], i), results.rating(people[1], i), results.said("main", i))
        for i, item in results.items.items()
        if item.target == target
    ]
    shared = [(d, r, s) for d, r, s in every if d and r and s]
    if not shared:
        return None
    scale = results.scale
    return (
        sum(wasserstein(d, r, scale) for d, r, _ in shared),
        sum(wasserstein(d, s, scale) for d, _, s in shared),
        sum(wasserstein(s, r, scale) for _, r, s in shared),
    )


def raters_figure(results: Results) -> StudyFigure | None:
    """Figure 3: how often each rater gives each label, a panel a target."""
    panels = {target: shares for target in results.targets if (shares := _shares(results, target))}
    if not panels:
        return None
    names = results.scale.names
    raters = list(dict.fromkeys(who for shares in panels.values() for who in shares))
    colours = dict(zip(raters, PALETTE, strict=False))

    def draw(figure: Any) -> None:
        axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        width = 0.8 / len(raters)
        for panel, (target, shares) in zip(axes, panels.items(), strict=True):
            for place, (who, each) in enumerate(shares.items()):
                at = [i + width * (place - (len(shares) - 1) / 2) for i in range(len(names))]
                panel.bar(at, each, width, color=colours[who])
            panel.set_title(f"toward {target}" if target else "all texts")
            panel.set_xticks(range(len(names)), names, rotation=30, ha="right")
        axes[0].set_ylabel("share of texts")
        handles = [Patch(color=colour, label=who) for who, colour in colours.items()]
        axes[-1].legend(handles=handles, fontsize=8)

    return StudyFigure(
        name="raters",
        title="Labels by rater (form of Figure 3)",
        draw=draw,
        width=3.6 * len(panels) + 0.8,
        height=3.4,
    )


def _shares(results: Results, target: str) -> Mapping[str, list[float]]:
    """The share of each label among those that each rater gave; of raters who gave any."""
    by_rater = {who: list(results.given(who, target).values()) for who in results.people}
    if len(by_rater) > MOST_RATERS:
        by_rater = {"people": [label for labels in by_rater.values() for label in labels]}
    by_rater["dialogue"] = list(results.labels("main", target).values())
    names = results.scale.names
    return {
        who: [labels.count(name) / len(labels) for name in names]
        for who, labels in by_rater.items()
        if labels
    }


COURSES = {"wd_share": "WD over its most", "nmi": "coupling NMI", "nce": "normalised CE"}


def course_figure(results: Results) -> StudyFigure | None:
    """Figure 4: WD, NMI and normalised cross entropy by round, mean over the dialogues."""
    by_round: dict[int, list[Mapping[str, Any]]] = {}
    for (_, arm), rounds in results.rounds.items():
        if arm == "main":
            for row in rounds:
                by_round.setdefault(row["round"], []).append(row)
    if not by_round:
        return None
    numbers = sorted(by_round)

    def draw(figure: Any) -> None:
        axes = figure.add_subplot()
        for (name, title), colour in zip(COURSES.items(), PALETTE, strict=False):
            values = [sum(row[name] for row in by_round[n]) / len(by_round[n]) for n in numbers]
            axes.plot(numbers, values, marker="o", color=colour, label=title)
        levels = [sum(row["level"] for row in by_round[n]) / len(by_round[n]) for n in numbers]
        axes.plot(numbers, levels, linestyle="--", color=QUIET, label="level")
        for n in numbers:
            axes.annotate(f"n={len(by_round[n])}", (n, 0), fontsize=7, ha="center", color=QUIET)
        axes.set_xlabel("round")
        axes.set_xticks(numbers)
        axes.set_ylim(0, None)
        axes.grid(axis="y")
        figure.legend(loc="outside right upper")

    return StudyFigure(
        name="course",
        title="Metrics by round, mean of the dialogues that reached it (form of Figure 4); "
        "coupling NMI says no more than how far the two distributions overlap",
        draw=draw,
    )
