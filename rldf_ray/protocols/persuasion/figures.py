"""Judge accuracy by protocol between its bounds, persuasiveness, the judge's mind by round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rldf_ray.figures.files import PALETTE, QUIET
from rldf_ray.protocols.persuasion.measures import (
    System,
    accuracy,
    mean_correct,
    system_of,
)
from rldf_ray.protocols.persuasion.results import Results
from rldf_ray.protocols.persuasion.tournament import rated
from rldf_ray.protocols.study import StudyFigure
from rldf_ray.stats import Estimate, clustered_estimate


def _bars(estimate: Estimate) -> tuple[float, float]:
    if estimate.low is None or estimate.high is None:
        return 0.0, 0.0
    return max(0.0, estimate.value - estimate.low), max(0.0, estimate.high - estimate.value)


def accuracy_figure(results: Results) -> StudyFigure | None:
    """The main chart: bars by protocol, a group a judge, the expert as a wide bar behind.

    Bars are by letter; a diamond is the same by probability over both positions.
    """
    found: dict[str, dict[System, Estimate]] = {}
    likelier: dict[System, Estimate] = {}
    for system, rows in results.systems.items():
        one = accuracy(rows, results.groups, results.seed)
        if one.accuracy is not None:
            found.setdefault(system.judge, {})[system] = one.accuracy
        if one.accuracy is not None and one.accuracy_by_probability is not None:
            likelier[system] = one.accuracy_by_probability
    if not found:
        return None
    titles = list(
        dict.fromkeys(
            system.title
            for several in found.values()
            for system in several
            if system.protocol != "expert"
        )
    )

    def draw(figure: Any) -> None:
        axes = figure.add_subplot()
        width = 0.8 / max(1, len(titles))
        diamonds = []
        for group, (_judge, several) in enumerate(found.items()):
            for system, estimate in several.items():
                if system.protocol == "expert":
                    label = "expert" if group == 0 else None
                    axes.bar(
                        group,
                        estimate.value,
                        0.9,
                        color="none",
                        edgecolor=QUIET,
                        hatch="//",
                        label=label,
                    )
                    if system in likelier:
                        diamonds.append((group + 0.45, likelier[system]))
                    continue
                place = titles.index(system.title)
                below, above = _bars(estimate)
                middle = group + width * (place - (len(titles) - 1) / 2)
                if system in likelier:
                    diamonds.append((middle, likelier[system]))
                axes.bar(
                    middle,
                    estimate.value,
                    width,
                    yerr=[[below], [above]],
                    capsize=3,
                    color=PALETTE[place % len(PALETTE)],
                    label=system.title if group == 0 else None,
                )
        if diamonds:
            axes.errorbar(
                [x for x, _ in diamonds],
                [one.value for _, one in diamonds],
                yerr=list(zip(*(_bars(one) for _, one in diamonds), strict=True)),
                fmt="D",
                markersize=4,
                capsize=2,
                clip_on=False,
                color="black",
                label="by probability, both positions",
            )
        axes.axhline(0.5, color=QUIET, linestyle=":", linewidth=1)
        axes.set_xticks(range(len(found)), list(found))
        axes.set_ylim(0, 1)
        axes.set_ylabel("judge accuracy")
        figure.legend(loc="outside right upper", fontsize=8)

    return StudyFigure(
        name="accuracy",
        title="Judge accuracy by protocol, with 95 % intervals over stories",
        draw=draw,
        width=3.4 + 2.2 * len(found),
    )


def persuasiveness_figure(results: Results, how: str) -> StudyFigure | None:
    """Elo by side, truth advantage and self-play accuracy, against the aggregate rating."""
    judge = results.settings.judges[0]
    tournament = results.tournaments.get((judge, how))
    names = rated(results.settings.debaters, tournament) if tournament else []
    if tournament is None or len(names) < 2:
        return None
    every, sides = tournament.every.ratings(), tournament.sides.ratings()
    own = {
        system.debater: mean_correct(rows, results.groups, results.seed)
        for system, rows in results.read[how].items()
        if system.protocol == "debate" and system.judge == judge and not system.interactive
    }

    def draw(figure: Any) -> None:
        first, second, third = figure.subplots(1, 3)
        places = range(len(names))
        for side, colour in (("correct", PALETTE[1]), ("incorrect", PALETTE[2])):
            values = [sides[name, side] for name in names]
            first.errorbar(
                places,
                [one.value for one in values],
                yerr=list(zip(*map(_bars, values), strict=True)),
                marker="o",
                capsize=3,
                color=colour,
                label=side,
            )
        first.set_xticks(places, names, rotation=30, ha="right")
        first.set_ylabel("Elo")
        first.legend(fontsize=8)
        rating = {name: every[name,].value for name in names}
        advantage = {n: sides[n, "correct"].value - sides[n, "incorrect"].value for n in names}
        accuracies = {name: one.value for name in names if (one := own.get(name)) is not None}
        for axes, label, values_of in (
            (second, "truth advantage", advantage),
            (third, "accuracy, self-play", accuracies),
        ):
            _against(axes, [(rating[name], value) for name, value in values_of.items()])
            axes.set_xlabel("aggregate Elo")
            axes.set_ylabel(label)

    return StudyFigure(
        name="persuasiveness" if how == "letter" else f"persuasiveness-by-{how}",
        title=f"Persuasiveness and truth, judge {judge}, by {how}",
        draw=draw,
        width=9.6,
    )


def _against(axes: Any, pairs: Sequence[tuple[float, float]]) -> None:
    """Points, and the line of least squares where there is one."""
    x, y = np.array([a for a, _ in pairs]), np.array([b for _, b in pairs])
    axes.scatter(x, y)
    if len(pairs) > 1 and np.ptp(x) > 0:
        ends = np.array([x.min(), x.max()])
        slope, height = np.polyfit(x, y, 1)
        axes.plot(ends, slope * ends + height, color=QUIET, linewidth=1)


def quotes_figure(results: Results) -> StudyFigure | None:
    """Quotes an argument by debater, protocol and side: verified, unverified, bare, stacked."""
    arguments = results.tables["arguments"].to_pylist()
    made: dict[str, list[Mapping[str, Any]]] = {}
    for row in arguments:
        kind = str(row["key"]).partition("/")[0]
        made.setdefault(f"{row['debater']}, {kind}\n{row['side']}", []).append(row)
    if not made:
        return None

    def draw(figure: Any) -> None:
        axes = figure.add_subplot()
        floor = np.zeros(len(made))
        for name, colour in (
            ("verified", PALETTE[1]),
            ("unverified", PALETTE[2]),
            ("bare", QUIET),
        ):
            heights = np.array([sum(r[name] for r in rows) / len(rows) for rows in made.values()])
            axes.bar(range(len(made)), heights, 0.7, bottom=floor, color=colour, label=name)
            floor += heights
        axes.set_xticks(range(len(made)), list(made), rotation=30, ha="right", fontsize=8)
        axes.set_ylabel("quotes an argument")
        figure.legend(loc="outside right upper", fontsize=8)

    return StudyFigure(
        name="quotes",
        title="Quotes of an argument",
        draw=draw,
        width=max(5.0, 2.4 + 0.7 * len(made)),
        height=4.2,
    )


def course_figure(results: Results) -> StudyFigure | None:
    """The judge's probability of the right answer after each round, mean over questions.

    All of it is asked for the letter alone; a verdict that was thought about is not in it.
    """
    lines: dict[str, dict[int, Estimate]] = {}
    systems = {_place(row): system_of(row) for row in results.outcomes}
    by_title: dict[str, list[Mapping[str, Any]]] = {}
    for row in results.tables["course"].to_pylist():
        system = systems.get(_place(row))
        # Matches between two debaters are a tournament's, and not of one form.
        if row["p_correct"] is not None and system is not None:
            by_title.setdefault(f"{system.title}, {system.judge}", []).append(row)
    for title, ours in by_title.items():
        for number in sorted({row["round"] for row in ours}):
            found = _at(ours, number, results.groups, results.seed)
            if found is not None:
                lines.setdefault(title, {})[number] = found
    if not any(len(line) > 1 for line in lines.values()):
        return None

    def draw(figure: Any) -> None:
        axes = figure.add_subplot()
        for place, (title, line) in enumerate(lines.items()):
            values = list(line.values())
            axes.errorbar(
                list(line),
                [one.value for one in values],
                yerr=list(zip(*map(_bars, values), strict=True)),
                marker="o",
                capsize=3,
                color=PALETTE[place % len(PALETTE)],
                label=title,
            )
        axes.axhline(0.5, color=QUIET, linestyle=":", linewidth=1)
        axes.set_xlabel("after round")
        axes.set_xticks(sorted({n for line in lines.values() for n in line}))
        axes.set_ylabel("judge's probability of the right answer")
        axes.set_ylim(0, 1)
        figure.legend(loc="outside right upper", fontsize=8)

    return StudyFigure(
        name="course",
        title="The judge's mind by round, asked for its letter at once",
        draw=draw,
        width=7.4,
    )


def _place(row: Mapping[str, Any]) -> tuple[str, ...]:
    return row["item_id"], row["key"], row["judge"], row["position"]


def _at(
    rows: Sequence[Mapping[str, Any]], number: int, groups: Mapping[str, str], seed: int
) -> Estimate | None:
    there = [row for row in rows if row["round"] == number]
    return clustered_estimate(
        [row["p_correct"] for row in there], [groups[row["item_id"]] for row in there], seed
    )
