"""Which prompts PPO trains on; without torch, as the data stage asks too."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Prompts:
    """The prompts PPO trains on, and those it keeps to see whether it generalises.

    Attributes:
        train, held_out: rows of data/prompts.parquet.
    """

    train: tuple[dict[str, Any], ...]
    held_out: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, rows: Sequence[dict[str, Any]], held_out: int) -> Prompts:
        """The `ppo` split of the rows of data/prompts.parquet.

        Raises:
            ValueError: `ppo.held_out_prompts` leaves none to train on.
        """
        return cls.split([row for row in rows if row["split"] == "ppo"], held_out)

    @classmethod
    def split(cls, rows: Sequence[dict[str, Any]], held_out: int) -> Prompts:
        """All prompts of the topics with the smallest hashes are kept, `held_out` at least.

        A scene with its clue and the same without are not told apart by a split: one of them would
        show what the other asks. The rows keep their order.
        """
        number = Counter(row["topic_id"] for row in rows)
        topics = sorted(number, key=lambda t: hashlib.sha256(f"ppo-held/{t}".encode()).hexdigest())
        kept: set[str] = set()
        while sum(number[topic] for topic in kept) < held_out and len(kept) < len(topics):
            kept.add(topics[len(kept)])
        if rows and len(kept) == len(topics):
            raise ValueError(
                f"ppo.held_out_prompts={held_out} leaves none of {len(rows)} PPO prompts of "
                f"{len(topics)} topics to train on: lower it, or raise topics.per_bias_type or "
                "topics.ppo_share"
            )
        return cls(
            tuple(row for row in rows if row["topic_id"] not in kept),
            tuple(row for row in rows if row["topic_id"] in kept),
        )
