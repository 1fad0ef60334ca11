"""Figures 2, 3 and 4 in form: the triangle of distances, raters' labels, metrics by round."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rldf_ray.figures.files import PALETTE, QUIET
from rldf_ray.protocols.evince.results import Results
from rldf_ray.protocols.study import StudyFigure


def triangle_figure(results: Results) -> StudyFigure | None:
    """Figure 2: the sums of distances of two people and the dialogue, drawn to scale.

    Sums of absolute differences always close to a triangle.
    """
    sides = {target: found for target in results.targets if (found := _sides(results, target))}
    if not sides:
        return None
    people = results.people[:2]

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
                f"{target or 'all'}: {dr:g} between people,\n{ds:g} and {sr:g} to the dialogue",
                fontsize=9,
            )
            place.set_aspect("equal")
            place.margins(0.25, 0.35)
            place.axis("off")

    return StudyFigure(
        name="triangle",
        title="Sums of distances in steps, of two people and the dialogue (form of Figure 2)",
        draw=draw,
        width=3.4 * len(sides),
        height=3.2,
    )


def _sides(results: Results, target: str) -> tuple[float, float, float] | None:
    """DR, DS and SR over the items that all three labelled."""
    if len(results.people) < 2:
        return None
    first, second = (results.given(who, target) for who in results.people[:2])
    ours = results.labels("main", target)
    shared = [item for item in ours if item in first and item in second]
    if not shared:
        return None
    between = results.scale.distance
    return (
        sum(between(first[i], second[i]) for i in shared),
        sum(between(first[i], ours[i]) for i in shared),
        sum(between(ours[i], second[i]) for i in shared),
    )


def raters_figure(results: Results) -> StudyFigure | None:
    """Figure 3: how often each rater gives each label, a panel a target."""
    raters = [*results.people, "dialogue"]
    panels = {
        target: shares
        for target in results.targets
        if (shares := _label_shares(results, target, raters))
    }
    if not panels:
        return None
    names = results.scale.names

    def draw(figure: Any) -> None:
        axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        width = 0.8 / len(raters)
        for panel, (target, shares) in zip(axes, panels.items(), strict=True):
            for place, (who, colour) in enumerate(zip(raters, PALETTE, strict=False)):
                at = [i + width * (place - (len(raters) - 1) / 2) for i in range(len(names))]
                panel.bar(at, shares[who], width, label=who, color=colour)
            panel.set_title(f"toward {target}" if target else "all texts")
            panel.set_xticks(range(len(names)), names, rotation=30, ha="right")
        axes[0].set_ylabel("share of texts")
        axes[-1].legend(fontsize=8)

    return StudyFigure(
        name="raters",
        title="Labels by rater (form of Figure 3)",
        draw=draw,
        width=3.6 * len(panels) + 0.8,
        height=3.4,
    )


def _label_shares(
    results: Results, target: str, raters: Sequence[str]
) -> Mapping[str, list[float]] | None:
    shares = {}
    for who in raters:
        labels = results.labels("main", target) if who == "dialogue" else results.given(who, target)
        given = list(labels.values())
        if not given:
            return None
        shares[who] = [given.count(name) / len(given) for name in results.scale.names]
    return shares


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
