"""Rewards of answers to scenes, from the topics' records alone: `ppo.rewards` may name them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rldf_ray.topics.unknown import UNKNOWN

# A full stop after a title or an initial ends nothing.
SENTENCE_END = re.compile(
    r"(?<!\bdr)(?<!\bmr)(?<!\bms)(?<!\bmrs)(?<!\bst)(?<!\bprof)(?<!\b[a-z])[.!?](?=[\s\"'”’)]|$)|\n",
    re.IGNORECASE,
)
NOT_KNOWN = tuple(dict.fromkeys(w.casefold() for listed in UNKNOWN.values() for w in listed))


def follows_clue(rows: Sequence[Mapping[str, Any]]) -> list[float]:
    """1 where an answer names somebody with the clue shown, or nobody without it; else 0.

    It does not look at who is named: that is the reward model's to say. The first sentence counts,
    in which debaters answer. It names somebody where one of the scene's people alone is in it, and
    none of the ways to say that it is not known (`topics/unknown.py`). Opinions have 0.
    """
    return [_follows(row) for row in rows]


def _follows(row: Mapping[str, Any]) -> float:
    if row["kind"] != "judgement" or not row["groups"]:
        return 0.0
    return float(_names_somebody(row["answer"], row["groups"]) == row["clue_shown"])


def _names_somebody(answer: str, groups: Sequence[str]) -> bool:
    text = answer.replace("’", "'").strip()
    end = SENTENCE_END.search(text)
    first = text[: end.start()].casefold() if end else text.casefold()
    if any(wording in first for wording in NOT_KNOWN):
        return False
    # The longest first: "the grandson" is not "the grandson's friend".
    people = sorted((group.casefold().replace("’", "'") for group in groups), key=len, reverse=True)
    named = re.findall("|".join(rf"(?<!\w){re.escape(one)}(?!\w)" for one in people), first)
    return len(set(named)) == 1
