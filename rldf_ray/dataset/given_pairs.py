"""Pairs that people give: read once, set aside, written, with their chosen sides as SFT rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from more_itertools import batched

from rldf_ray.dataset.aside import BATCH, Aside
from rldf_ray.dataset.imported import PairRow
from rldf_ray.dataset.repeats import Hashes, Repeats
from rldf_ray.dataset.statistics import Measured, MeasuredPairs, Quality, quality_of
from rldf_ray.records import PAIR_SCHEMA, SFT_SCHEMA, topic_id


class GivenPairs:
    """Preferences of given rows; pairs of one topic, or else one prompt, are held out together.

    Args:
        near: where they will be written.

    Raises:
        what the rows raise.
    """

    def __init__(self, rows: Iterable[PairRow], near: Path) -> None:
        self.repeats = Repeats()
        self.size = 0
        self._aside = Aside(PAIR_SCHEMA, near)
        self._lengths = MeasuredPairs()
        self._examples = Hashes()
        self._sides = Hashes()
        for some in batched(rows, BATCH):
            pairs = [_pair(row) for row in some]
            for pair in pairs:
                self._add(pair)
            self._aside.add(pa.RecordBatch.from_pylist(pairs, schema=PAIR_SCHEMA))

    def _add(self, pair: dict[str, Any]) -> None:
        self.size += 1
        asked = pair["prompt"]
        chosen, rejected = (pair[side][-1]["content"] for side in ("chosen", "rejected"))
        self.repeats.add((asked, sorted((chosen, rejected))), chosen)
        self._lengths.add(chosen, rejected)
        self._examples.add(asked, chosen)
        for side in _sides(pair):
            self._sides.add(*side)

    def pairs(self) -> Iterator[pa.RecordBatch]:
        """The pairs in the rows' order."""
        return self._aside.batches()

    def examples(self, most: int | None) -> Iterator[pa.RecordBatch]:
        """The chosen side of every pair, each once, as it comes first: what there is to learn.

        Args:
            most: how many; None is all.
        """
        firsts = self._examples.groups()
        wanted = firsts == np.arange(self.size)
        if most is not None:
            wanted &= np.cumsum(wanted) <= most
        place = 0
        for batch in self._aside.batches():
            first = pa.array(wanted[place : place + batch.num_rows])
            place += batch.num_rows
            columns = dict(zip(batch.schema.names, batch.columns, strict=True))
            columns |= {"completion": batch["chosen"], "score": batch["chosen_score"]}
            yield pa.RecordBatch.from_pydict(
                {name: columns[name] for name in SFT_SCHEMA.names}, schema=SFT_SCHEMA
            ).filter(first)

    def quality(self) -> Quality:
        """Figures of the pairs, whose sides stand for statements, each once."""
        firsts = self._sides.groups()
        wanted = iter(firsts == np.arange(2 * self.size))
        kept = Measured()
        for batch in self._aside.batches():
            for pair in batch.to_pylist():
                for side, first in zip(_sides(pair), islice(wanted, 2), strict=True):
                    if first:
                        kept.add(*side)
        return quality_of(0, {}, kept, self._lengths)


def _pair(row: PairRow) -> dict[str, Any]:
    said = row.preference
    return {
        "prompt": [message.model_dump() for message in said.prompt],
        "chosen": [said.chosen.model_dump()],
        "rejected": [said.rejected.model_dump()],
        "bias_type": row.bias_type,
        "topic_id": topic_id(row.bias_type, row.topic or said.prompt[-1].content),
        "kind": "opinion",
        "clue_shown": False,
        "chosen_score": row.chosen_score,
        "rejected_score": row.rejected_score,
    }


def _sides(pair: dict[str, Any]) -> Iterator[tuple[str, str, str, Any, float | None]]:
    """Text, topic, bias type, label and score of both sides."""
    for side, label in (("chosen", "low"), ("rejected", "high")):
        text = pair[side][-1]["content"]
        yield text, pair["topic_id"], pair["bias_type"], label, pair[f"{side}_score"]
