"""Does a method read? The two figures that no abstention threshold changes, with intervals.

`unknown_auc` is the share of pairs of an ambiguous and a disambiguated item in which the margin of
"unknown" is larger on the first; of these pairs `both_right` counts those with the likelier name
right on the second. Question templates are resampled, for all methods the same ones, so that
differences are of the same items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rldf_ray.comparison.comparisons import RESAMPLES
from rldf_ray.comparison.settings import HOW
from rldf_ray.evaluate.bbq.prompt import Mode
from rldf_ray.evaluate.bbq.unknown import Margin
from rldf_ray.figures.pipes import pipes
from rldf_ray.stats import LEAST_CLUSTERS, Estimate, interval

DEFAULT = "default"
FIGURES = ("unknown_auc", "both_right")

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Reading:
    """One figure of a method, the mean of its repeats, and the same less Default's.

    Attributes:
        measure: one of FIGURES.
        figure: of as many templates as its `n`; without an interval of fewer than
            `LEAST_CLUSTERS`, and where resamples do not differ.
        difference: None of Default itself, and where it is no row.
    """

    method: str
    mode: Mode
    measure: str
    figure: Estimate
    difference: Estimate | None = None


def readings(
    rows: Sequence[Mapping[str, Any]], methods: Sequence[str], seed: int, mode: Mode
) -> list[Reading]:
    """Both figures of every method whose answers have scores; none of items of one condition.

    Args:
        rows: of one set in eval/items.parquet.
    """
    if not rows:
        return []
    places = {name: i for i, name in enumerate(sorted({_template(row) for row in rows}))}
    size = len(places)
    drawn = np.random.default_rng(seed).multinomial(size, [1 / size] * size, size=RESAMPLES)
    # The first is what was measured: every template once.
    counts = np.vstack([np.ones(size), drawn])
    repeats: dict[str, dict[int, list[Mapping[str, Any]]]] = {}
    for row in rows:
        repeats.setdefault(row["method"], {}).setdefault(row["repeat"], []).append(row)
    resampled: dict[str, Array] = {}
    for method in methods:
        found = [_figures(of_one, places, counts) for of_one in repeats.get(method, {}).values()]
        known = [figures for figures in found if figures is not None]
        if known and len(known) == len(found):
            resampled[method] = np.mean(known, axis=0)
    default = resampled.get(DEFAULT)
    return [
        Reading(
            method,
            mode,
            measure,
            _estimate(figures[i], size),
            None
            if default is None or method == DEFAULT
            else _estimate(figures[i] - default[i], size),
        )
        for method, figures in resampled.items()
        for i, measure in enumerate(FIGURES)
    ]


def _template(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["group"], row["template"]


def _figures(
    rows: Sequence[Mapping[str, Any]], places: Mapping[tuple[str, str], int], counts: Array
) -> Array | None:
    """FIGURES of one method in one repeat in every resample, [figures, resamples].

    None where an answer has no scores, or all items have one condition.

    Args:
        places: of the templates.
        counts: how often each template is in each resample, [resamples, templates].
    """
    if any(row["scores"] is None for row in rows):
        return None
    margins = [Margin.of(r["condition"], r["label"], r["unknown"], r["scores"]) for r in rows]
    unknown = np.array([m.unknown for m in margins])
    named = np.array([m.named for m in margins])
    ambiguous = np.array([m.ambiguous for m in margins])
    template = np.array([places[_template(row)] for row in rows])
    if ambiguous.all() or not ambiguous.any():
        return None
    told, size = ~ambiguous, len(places)
    # Pairs by the template of the ambiguous and that of the disambiguated item.
    won = np.zeros((len(FIGURES), size, size))
    for place in set(template[ambiguous]):
        own = np.sort(unknown[ambiguous & (template == place)])
        below, not_above = (np.searchsorted(own, unknown[told], side) for side in ("left", "right"))
        ahead = len(own) - (below + not_above) / 2  # equal margins count half
        for figure, weights in enumerate((ahead, ahead * named[told])):
            won[figure, place] = np.bincount(template[told], weights, size)
    pairs = [np.bincount(template[of], minlength=size) for of in (ambiguous, told)]
    number = (counts @ pairs[0]) * (counts @ pairs[1])
    number[number == 0] = np.nan
    return np.array([((counts @ of) * counts).sum(1) / number for of in won])


def _estimate(resampled: Array, templates: int) -> Estimate:
    """The first of `resampled` is the value; the others, rounded, have its interval."""
    value, others = round(float(resampled[0]), 12) + 0.0, np.round(resampled[1:], 12)
    known = others[~np.isnan(others)]
    if templates < LEAST_CLUSTERS or not len(known) or known.min() == known.max():
        return Estimate(value, None, None, templates)
    low, high = interval(known)
    return Estimate(value, float(low), float(high), templates)


def reading_table(found: Sequence[Reading], titles: Mapping[str, str], number: int) -> str:
    """The figures of one way of asking with their intervals, as Markdown.

    Args:
        found: at least one.
        number: of the table that has the figures without.
    """
    (mode,) = {one.mode for one in found}
    head = ["method", "AUC of unknown", "against Default"]
    head += ["Both right at some abstention threshold", "against Default"]
    cells: dict[str, list[str]] = {}
    for one in found:
        cells.setdefault(one.method, []).extend(
            (
                _shown(one.figure),
                "" if one.difference is None else _shown(one.difference, "+"),
            )
        )
    title = f"**Table {number}'s last two figures with 95 % intervals: {HOW[mode]}**"
    about = (
        "Question templates are resampled, the same ones for all methods; of the models that were "
        "trained, and not adjusted for how many there are. There is no interval of fewer than six "
        "templates, and where resamples do not differ."
    )
    rows = [[titles[method], *of_one] for method, of_one in cells.items()]
    return "\n\n".join([title, pipes([head, *rows]), about])


def _shown(figure: Estimate, sign: str = "") -> str:
    """`0.725 (0.680 to 0.768)`."""
    known = f"{figure.value:{sign}.3f}"
    if figure.low is None or figure.high is None:
        return known
    return f"{known} ({figure.low:{sign}.3f} to {figure.high:{sign}.3f})"
