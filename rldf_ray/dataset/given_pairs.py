"""Pairs that people give: read once, set aside, written, with their chosen sides as SFT rows.

The plan's limits of pairs hold for them, and what they leave out gives no SFT row; its filters do
not, which are about what debaters say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from more_itertools import batched, interleave_longest
from numpy.typing import NDArray

from rldf_ray.dataset.aside import BATCH, Aside
from rldf_ray.dataset.imported import PairRow
from rldf_ray.dataset.repeats import Hashes, Repeats
from rldf_ray.dataset.statistics import Measured, MeasuredPairs, Quality, quality_of
from rldf_ray.plan import DataSection
from rldf_ray.records import PAIR_SCHEMA, SFT_SCHEMA, topic_id


class GivenPairs:
    """Preferences of given rows; pairs of one topic, or else one prompt, are held out together.

    Args:
        near: where they will be written.
        section: which of them are kept.

    Attributes:
        read: how many rows there are.

    Raises:
        what the rows raise.
    """

    def __init__(self, rows: Iterable[PairRow], near: Path, section: DataSection) -> None:
        self.repeats = Repeats()
        self.read = 0
        self._aside = Aside(PAIR_SCHEMA, near)
        self._examples = Hashes()
        self._sides = Hashes()
        self._topics, self._prompts, self._bias_types = Hashes(), Hashes(), Hashes()
        self._gaps: list[float] = []
        for some in batched(rows, BATCH):
            pairs = [_pair(row) for row in some]
            for pair in pairs:
                self._add(pair)
            self._aside.add(pa.RecordBatch.from_pylist(pairs, schema=PAIR_SCHEMA))
        topics, prompts = self._topics.groups(), self._prompts.groups()
        self._kept = kept_pairs(topics, prompts, np.array(self._gaps), section)

    @property
    def size(self) -> int:
        """How many pairs are kept."""
        return int(self._kept.sum())

    def _add(self, pair: dict[str, Any]) -> None:
        self.read += 1
        asked = pair["prompt"]
        chosen, rejected = (pair[side][-1]["content"] for side in ("chosen", "rejected"))
        self.repeats.add((asked, sorted((chosen, rejected))), chosen)
        self._topics.add(pair["topic_id"])
        self._prompts.add(asked)
        self._bias_types.add(pair["bias_type"])
        self._gaps.append(_gap(pair))
        self._examples.add(asked, chosen)
        for side in _sides(pair):
            self._sides.add(*side)

    def pairs(self) -> Iterator[pa.RecordBatch]:
        """The pairs that are kept, in the rows' order."""
        place = 0
        for batch in self._aside.batches():
            kept = pa.array(self._kept[place : place + batch.num_rows])
            place += batch.num_rows
            yield batch.filter(kept)

    def examples(self, most: int | None) -> Iterator[pa.RecordBatch]:
        """The chosen sides of the pairs that are kept, each once, as it comes first.

        Args:
            most: how many, bias types in turn; None is all.
        """
        wanted = _firsts(self._examples.groups(), self._kept)
        if most is not None:
            bias_types = _grouped(np.flatnonzero(wanted).tolist(), self._bias_types.groups())
            wanted[:] = False
            wanted[list(islice(interleave_longest(*bias_types), most))] = True
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
        """Figures of the pairs that are kept, whose sides stand for statements, each once."""
        wanted = iter(_firsts(self._sides.groups(), np.repeat(self._kept, 2)))
        kept, lengths = Measured(), MeasuredPairs()
        still = iter(self._kept)
        for batch in self._aside.batches():
            for pair in batch.to_pylist():
                if next(still):
                    lengths.add(*(pair[side][-1]["content"] for side in ("chosen", "rejected")))
                for side, first in zip(_sides(pair), islice(wanted, 2), strict=True):
                    if first:
                        kept.add(*side)
        return quality_of(0, {}, kept, lengths, sides=True)


def kept_pairs(
    topics: NDArray[np.int64],
    prompts: NDArray[np.int64],
    gaps: NDArray[np.float64],
    section: DataSection,
) -> NDArray[np.bool_]:
    """Which pairs the plan keeps, by `min_gap`, `pairs_per_topic` and `max_pairs`, bool [N].

    The widest gap of a prompt or topic comes first, pairs without scores last and in their order;
    `min_gap` says nothing of those, and 0 nothing at all: which side is better was given.

    Args:
        topics, prompts: of each pair, equal where they are the same, [N].
        gaps: NaN where a side has no score, [N].
    """
    least = section.min_gap or -np.inf
    # Stable; NaN comes last, and is not less than anything.
    places = [int(i) for i in np.argsort(-gaps, kind="stable") if not gaps[i] < least]
    if section.pairs_per_topic is not None:
        each = [some[: section.pairs_per_topic] for some in _grouped(places, topics)]
        among = {place for some in each for place in some}
        places = [place for place in places if place in among]
    if section.max_pairs is not None:
        in_turn = interleave_longest(*sorted(_grouped(places, prompts), key=min))
        places = list(islice(in_turn, section.max_pairs))
    kept = np.zeros(len(gaps), dtype=bool)
    kept[places] = True
    return kept


def _firsts(groups: NDArray[np.int64], kept: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The first row of each group among those that are kept, bool [N]."""
    places = np.flatnonzero(kept)
    _, firsts = np.unique(groups[places], return_index=True)
    wanted = np.zeros(len(groups), dtype=bool)
    wanted[places[firsts]] = True
    return wanted


def _grouped(places: Iterable[int], groups: NDArray[np.int64]) -> list[list[int]]:
    """Places of one group together, in their order."""
    by_group: dict[int, list[int]] = {}
    for place in places:
        by_group.setdefault(int(groups[place]), []).append(place)
    return list(by_group.values())


def _gap(pair: dict[str, Any]) -> float:
    chosen, rejected = pair["chosen_score"], pair["rejected_score"]
    return float("nan") if chosen is None or rejected is None else float(rejected - chosen)


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
