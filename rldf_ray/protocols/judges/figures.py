"""Figure 6 in form (consistency by round) and Figure 3 (whom a meta-judge selects)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from rldf_ray.figures.files import PALETTE, QUIET
from rldf_ray.protocols.judges.analysis import Outcomes, consistent
from rldf_ray.protocols.judges.tables import TITLES, perturbed
from rldf_ray.protocols.judges.views import JudgedItem
from rldf_ray.protocols.study import StudyFigure
from rldf_ray.stats import Estimate, clustered_estimate


def consistency_figure(
    outcomes: Outcomes, items: Mapping[str, JudgedItem], seed: int
) -> StudyFigure | None:
    """Consistency by round, one line a bias, over all debates; None without debates."""
    lines = {
        condition: found
        for condition in perturbed(outcomes)
        if (found := _by_round(outcomes, items, condition, seed))
    }
    if not lines:
        return None

    def draw(figure: Any) -> None:
        axes = figure.add_subplot()
        for place, ((condition, found), colour) in enumerate(
            zip(lines.items(), PALETTE, strict=False)
        ):
            # Beside each other, so that no interval hides another.
            rounds = [number + 0.05 * (place - (len(lines) - 1) / 2) for number in found]
            values = [e.value for e in found.values()]
            below = [e.value - (e.value if e.low is None else e.low) for e in found.values()]
            above = [(e.value if e.high is None else e.high) - e.value for e in found.values()]
            axes.errorbar(
                rounds,
                values,
                yerr=[below, above],
                marker="o",
                markersize=4,
                capsize=3,
                color=colour,
                label=TITLES[condition],
                linestyle="--" if condition == "rerun" else "-",
            )
        axes.set_xlabel("round of debate (0: the judge alone)")
        axes.set_ylabel("consistency")
        axes.set_xticks(sorted({n for found in lines.values() for n in found}))
        axes.set_ylim(0, 1.02)
        axes.grid(axis="y")
        figure.legend(loc="outside right upper")

    return StudyFigure(
        name="consistency-by-round",
        title="Consistency by round of debate, with 95 % intervals over questions (form of "
        "Figure 6)",
        draw=draw,
    )


def _by_round(
    outcomes: Outcomes, items: Mapping[str, JudgedItem], condition: str, seed: int
) -> dict[int, Estimate]:
    """Mean over the debates, resampling groups of items."""
    debates = outcomes.systems("debate")
    estimates = {}
    for number in sorted({n for system in debates for n in outcomes.rounds(system)}):
        values, groups = [], []
        for system in debates:
            for clean, row in outcomes.paired(system, number, condition):
                values.append(float(consistent(clean, row)))
                groups.append(items[row["item_id"]].group)
        estimate = clustered_estimate(values, groups, seed)
        if estimate is not None:
            estimates[number] = estimate
    return estimates


def selection_shares(outcomes: Outcomes) -> dict[str, dict[str, dict[str, float]]]:
    """Of the valid choices of meta-judges: pool -> condition -> member -> share."""
    counts: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for system in outcomes.systems("meta"):
        if system.mode != "select" or system.pool is None:
            continue
        for condition in ("clean", "position"):
            for row in outcomes.rows(system, 0, condition):
                if row["chosen"] is not None:
                    counts[system.pool][condition][row["chosen"]] += 1
    return {
        pool: {
            condition: {member: chosen[member] / chosen.total() for member in pool.split("+")}
            for condition, chosen in by_condition.items()
        }
        for pool, by_condition in counts.items()
    }


def selection_figure(outcomes: Outcomes) -> StudyFigure | None:
    """Shares of the choices by pool, against chance; None without meta-judges that select."""
    shares = selection_shares(outcomes)
    if not shares:
        return None
    return StudyFigure(
        name="selected-referees",
        title="Whom meta-judges select; the line is chance (form of Figure 3)",
        draw=_drawn_shares(shares),
        width=max(4.8, 2.4 * len(shares)),
    )


def _drawn_shares(
    shares: Mapping[str, Mapping[str, Mapping[str, float]]],
) -> Callable[[Any], None]:
    def draw(figure: Any) -> None:
        panels = figure.subplots(1, len(shares), sharey=True, squeeze=False)[0]
        for axes, (pool, by_condition) in zip(panels, shares.items(), strict=True):
            members = pool.split("+")
            width = 0.8 / len(by_condition)
            for place, (condition, chosen) in enumerate(by_condition.items()):
                at = [i + place * width for i in range(len(members))]
                heights = [chosen[member] for member in members]
                axes.bar(at, heights, width, color=PALETTE[1 + place], label=TITLES[condition])
            axes.axhline(1 / len(members), color=QUIET, linewidth=1)
            middle = width * (len(by_condition) - 1) / 2
            axes.set_xticks([i + middle for i in range(len(members))], members)
            axes.set_ylim(0, 1)
        panels[0].set_ylabel("share of choices")
        panels[-1].legend()

    return draw
