"""What of a run's debates and answers its page shows whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

SAMPLE_DEBATES = 4
MOST_STATEMENTS = 100
"""Statements that are shown of one debate: all that are given on a topic may be of one."""
SAMPLE_ANSWERS = 8
BATCH = 16_384


@dataclass(frozen=True, slots=True)
class SampledDebate:
    """The first statements of a debate, rows of the transcripts, and how many more it has."""

    statements: Sequence[Mapping[str, Any]]
    left_out: int


def sampled(statements: pa.Table) -> dict[str, list[int]]:
    """Places of the statements of a few debates: the first of each bias type, both kinds."""
    first: dict[tuple[str, str], str] = {}
    names = ("bias_type", "kind", "debate_id")
    for batch in statements.select(names).to_batches(BATCH):
        for bias_type, kind, debate in zip(*(c.to_pylist() for c in batch.columns), strict=True):
            first.setdefault((bias_type, kind), debate)
    chosen = list(dict.fromkeys(first.values()))[:SAMPLE_DEBATES]
    return {
        name: list(pc.indices_nonzero(pc.equal(statements["debate_id"], name)).to_pylist())
        for name in chosen
    }


def shown(places: Mapping[str, Sequence[int]]) -> list[int]:
    """Those of the places of `sampled` that the page shows, in their order."""
    return sorted(place for several in places.values() for place in several[:MOST_STATEMENTS])


def sample_debates(
    places: Mapping[str, Sequence[int]], rows: Sequence[Mapping[str, Any]]
) -> list[SampledDebate]:
    """The debates of `sampled`; `rows` are those at the places that are `shown`."""
    by_debate: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_debate.setdefault(row["debate_id"], []).append(row)
    return [
        SampledDebate(by_debate[name], len(several) - len(by_debate[name]))
        for name, several in places.items()
    ]


def side_by_side(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The models' answers to the same held-out prompts."""
    prompts: dict[str, dict[str, Any]] = {}
    for row in rows:
        entry = prompts.setdefault(row["prompt_id"], {"prompt": row["prompt"], "models": {}})
        entry["models"][row["model"]] = row
    return list(prompts.values())[:SAMPLE_ANSWERS]
