"""Figure 4 in form: how relevancy changes, by arm; and passes against final bias."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rldf_ray.figures.files import PALETTE, QUIET
from rldf_ray.protocols.mabrf.measures import relevancy_change
from rldf_ray.protocols.mabrf.results import Results
from rldf_ray.protocols.study import StudyFigure

BINS = 20


def relevancy_figure(results: Results) -> StudyFigure | None:
    """Histograms of the change of relevancy with a line at the mean, and the means."""
    changed = {
        arm: [v for row in outcomes.values() if (v := relevancy_change(row)) is not None]
        for arm, outcomes in results.arms.items()
    }
    changed = {arm: values for arm, values in changed.items() if values}
    if not changed:
        return None
    means = {arm: results.mean(relevancy_change, results.arms[arm]) for arm in changed}

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2, width_ratios=[3, 2])
        for (arm, values), colour in zip(changed.items(), PALETTE, strict=False):
            left.hist(values, bins=BINS, range=(-9, 9), alpha=0.55, color=colour, label=arm)
            left.axvline(sum(values) / len(values), color=colour, linestyle="--")
        left.set_xlabel("relevancy, final less first")
        left.set_ylabel("items")
        left.legend(fontsize=8)
        for place, found in enumerate(means.values()):
            if found is None:
                continue
            below = 0.0 if found.low is None else found.value - found.low
            above = 0.0 if found.high is None else found.high - found.value
            right.bar(place, found.value, yerr=[[below], [above]], capsize=4, color=PALETTE[place])
        right.axhline(0, color=QUIET, linewidth=1)
        right.set_xticks(range(len(means)), list(means), rotation=20, ha="right")
        right.set_ylabel("mean change")

    return StudyFigure(
        name="relevancy",
        title="Change of relevancy by arm (form of Figure 4), with 95 % intervals",
        draw=draw,
        width=7.2,
    )


def passes_figure(results: Results) -> StudyFigure | None:
    """How many passes an item took, against the bias that was left."""
    counts = {
        arm: Counter(
            (row["passes"], row["bias_1"]) for row in outcomes.values() if row["bias_1"] is not None
        )
        for arm, outcomes in results.arms.items()
    }
    if not any(any(passes for passes, _ in found) for found in counts.values()):
        return None

    def draw(figure: Any) -> None:
        axes = figure.add_subplot()
        for place, ((arm, found), colour) in enumerate(zip(counts.items(), PALETTE, strict=False)):
            # Beside each other, so that no arm hides another.
            shift = 0.12 * (place - (len(counts) - 1) / 2)
            axes.scatter(
                [passes + shift for passes, _ in found],
                [bias for _, bias in found],
                s=[14 * number for number in found.values()],
                color=colour,
                alpha=0.6,
                label=arm,
            )
        axes.set_xlabel("passes")
        axes.set_ylabel("judge's bias in the end")
        axes.set_ylim(0.5, 10.5)
        axes.legend(fontsize=8)

    return StudyFigure(name="passes", title="Passes and the bias that is left", draw=draw)
