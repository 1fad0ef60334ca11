"""Figures of any evaluation in one long table, for the comparison of methods.

One row a method, repeat, set, group and measure:

    method  repeat  seed  set        group  measure    value  n
    RLDF    0       17    multirole  age    biased     0.31   2000
    RLDF    0       17    answers    all    BS         22.5   80
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal

import pyarrow as pa

Set = Literal["multirole", "answers", "people"]

ALL = "all"
"""The group of everything together, weighted by items."""

LONG_SCHEMA = pa.schema(
    [
        ("method", pa.string()),
        ("repeat", pa.int64()),
        ("seed", pa.int64()),
        ("set", pa.string()),
        ("group", pa.string()),
        ("measure", pa.string()),
        ("value", pa.float64()),
        ("n", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class Value:
    """A figure of a group (a bias type, or ALL).

    Attributes:
        measure: "biased", "impartial", "anti_biased" (shares of queries), or "BS", "CE", "LS" or
            another rubric's name (means, 0-100).
        value: None where nothing was measured.
        n: queries or answers behind it.
    """

    group: str
    measure: str
    value: float | None
    n: int


def long_table(method: str, repeat: int, seed: int, set_: Set, values: Iterable[Value]) -> pa.Table:
    """`values` of one method and repeat; columns of LONG_SCHEMA. Tables can be concatenated."""
    head = {"method": method, "repeat": repeat, "seed": seed, "set": set_}
    return pa.Table.from_pylist([head | asdict(value) for value in values], schema=LONG_SCHEMA)
