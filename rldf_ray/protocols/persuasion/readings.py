"""A judge's answer as its probabilities tell it, over both positions of the answers.

A judge that likes a letter names it wherever it stands, and its letter then says nothing about the
answers. The mean probability of the correct answer over both positions is free of that liking: it
is above 1/2 where the judge's log-odds for the correct answer sum to more than 0, and a liking for
a letter enters once with either sign (a choice; the paper counts letters).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

Row = Mapping[str, Any]

_SAME = ("item_id", "protocol", "judge", "correct_debater", "incorrect_debater", "side")
READINGS = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in _SAME),
        pa.field("interactive", pa.bool_()),
        # Null where the verdict of that position is none.
        pa.field("letter_plain", pa.string()),
        pa.field("letter_swapped", pa.string()),
        # Whether both letters stand for the same answer; null where one is none.
        pa.field("same", pa.bool_()),
        # Mean over both positions; null where it is not known in one of them.
        pa.field("p_correct", pa.float64()),
        # Whether that is above 1/2; null of exactly 1/2 as well.
        pa.field("correct", pa.bool_()),
    ]
)
_DIGITS = 12
"""A mean of .9 and .1 is even, whatever its last bit says."""


def readings(outcomes: Iterable[Row]) -> list[Row]:
    """One row for each pair of verdicts on the same in both positions, as `READINGS` has them.

    Args:
        outcomes: rows of `records.OUTCOMES`; a verdict without its twin gives no row, nor does a
            person's, as nobody sees both positions.
    """
    pairs: dict[tuple[Any, ...], dict[str, Row]] = {}
    for row in outcomes:
        if row.get("rater") is not None:
            continue
        key = (*(row[name] for name in _SAME), row["interactive"])
        pairs.setdefault(key, {})[row["position"]] = row
    return [_reading(pair) for pair in pairs.values() if len(pair) == 2]


def _reading(pair: Mapping[str, Row]) -> Row:
    plain, swapped = pair["plain"], pair["swapped"]
    chances = [row["p_correct"] for row in (plain, swapped)]
    letters = [row["letter"] for row in (plain, swapped)]
    mean = None if None in chances else round(sum(chances) / 2, _DIGITS)
    return {
        **{name: plain[name] for name in (*_SAME, "interactive")},
        "letter_plain": letters[0],
        "letter_swapped": letters[1],
        "same": None if None in letters else letters[0] != letters[1],
        "p_correct": mean,
        "correct": None if mean is None or mean == 0.5 else mean > 0.5,
    }


def one_letter(rows: Sequence[Row]) -> tuple[str, float] | None:
    """The letter named most often in both positions, and for what share of the pairs.

    A pair counts where both verdicts are letters; None where there is none.
    """
    both = [row for row in rows if row["same"] is not None]
    stuck = Counter(row["letter_plain"] for row in both if not row["same"])
    if not both:
        return None
    letter = "B" if stuck["B"] > stuck["A"] else "A"
    return letter, stuck[letter] / len(both)


def readings_table(outcomes: Iterable[Row]) -> pa.Table:
    """The readings as `data/readings.parquet` holds them."""
    return pa.Table.from_pylist([dict(row) for row in readings(outcomes)], schema=READINGS)
