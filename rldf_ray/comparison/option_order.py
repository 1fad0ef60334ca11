"""Does a method answer by the place of an option? Only where options are shown, so by letter."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from rldf_ray.evaluate.bbq.positions import positions
from rldf_ray.evaluate.bbq.prompt import LETTERS
from rldf_ray.figures.pipes import pipes
from rldf_ray.sets.bbq.items import BBQItem

Positions = Mapping[str, Any]


def positions_of(items: Sequence[BBQItem], answers: pa.Table) -> Positions:
    """`bbq_positions.positions` of one method's answers in one repeat."""
    rows = {(row["category"], row["example_id"]): row for row in answers.to_pylist()}
    return positions(
        items,
        {key: row["prediction"] for key, row in rows.items()},
        {key: tuple(row["order"]) for key, row in rows.items()},
    )


def order_notes(
    positions_by_method: Mapping[str, Sequence[Positions]], titles: Mapping[str, str]
) -> list[str]:
    """The methods that answer by place, by repeat."""
    return [
        f"{titles[method]}: {one['verdict']}"
        for method, repeats in positions_by_method.items()
        for one in repeats
        if one["verdict"]
    ]


def order_table(
    positions_by_method: Mapping[str, Sequence[Positions]], titles: Mapping[str, str]
) -> str:
    """How often each letter was chosen, and accuracy where it was right, as Markdown."""
    head = ["method", *(f"{letter} chosen" for letter in LETTERS)]
    head += [*(f"accuracy where {letter} is right" for letter in LETTERS), "spread"]
    rows = [
        [
            titles[method],
            *(_mean(repeats, "chosen", letter) for letter in LETTERS),
            *(_mean(repeats, "accuracy", letter) for letter in LETTERS),
            f"{statistics.fmean(one['accuracy_spread'] for one in repeats):.3f}",
        ]
        for method, repeats in positions_by_method.items()
    ]
    return "**Order of the options, drawn by seed**\n\n" + pipes([head, *rows])


def _mean(repeats: Sequence[Positions], figure: str, letter: str) -> str:
    known = [one[figure][letter]["share"] for one in repeats if one[figure][letter] is not None]
    return f"{statistics.fmean(known):.3f}" if known else ""
