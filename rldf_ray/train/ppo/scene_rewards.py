"""Rewards of answers to scenes, from the topics' records alone: `ppo.rewards` may name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def follows_clue(rows: Sequence[Mapping[str, Any]]) -> list[float]:
    """1 where an answer names somebody with the clue shown, or nobody without it; else 0.

    It does not look at who is named: that is the reward model's to say. The first sentence counts,
    in which debaters answer. Opinions have 0.
    """
    return [_follows(row) for row in rows]


def _follows(row: Mapping[str, Any]) -> float:
    if row["kind"] != "judgement" or not row["groups"]:
        return 0.0
    first = row["answer"].partition(".")[0].casefold()
    names = any(group.casefold() in first for group in row["groups"])
    return float(names == row["clue_shown"])
