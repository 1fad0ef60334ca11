"""What the requests about each text took, by who was asked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from rldf_ray.protocols.evince.records import Row
from rldf_ray.protocols.study import TURN_SCHEMA

TOKENS = ("prompt_tokens", "cached_tokens", "generated_tokens")
COST = pa.struct(
    [
        pa.field("seat", pa.string()),
        *(pa.field(name, pa.int64()) for name in ("calls", *TOKENS)),
    ]
)
"""A seat's requests: how many, tokens read, those of them that a cache had, tokens written."""
TURNS = pa.schema([TURN_SCHEMA.field(name) for name in ("item_id", "address", "seat", *TOKENS)])
"""The columns of turns that costs are counted from."""


def costs(turns: pa.Table) -> Mapping[str, Sequence[Row]]:
    """Rows of `COST` by item, in the order in which seats first spoke.

    All arms and baselines are in them; arms share the judge's scores of equal arguments.
    """
    addresses: dict[tuple[str, str], set[str]] = defaultdict(set)
    spent: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * len(TOKENS))
    for row in turns.select(TURNS.names).to_pylist():
        key = row["item_id"], row["seat"]
        # Several samples of one request are several turns at one address.
        addresses[key].add(row["address"])
        spent[key] = [n + row[name] for n, name in zip(spent[key], TOKENS, strict=True)]
    found: dict[str, list[Row]] = defaultdict(list)
    for (item_id, seat), tokens in spent.items():
        calls = len(addresses[item_id, seat])
        row = {"seat": seat, "calls": calls, **dict(zip(TOKENS, tokens, strict=True))}
        found[item_id].append(row)
    return found


def summed(rows: Iterable[Row]) -> dict[str, Any]:
    """All seats together."""
    every = list(rows)
    return {name: sum(row[name] for row in every) for name in ("calls", *TOKENS)}
