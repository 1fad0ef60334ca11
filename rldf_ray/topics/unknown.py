"""How one says that something is not known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Wordings = Literal["own", "bbq"]

# Small models repeat their instructions' words, and what is learnt from one wording does not reach
# another; so each debate's prompts name two others.
UNKNOWN: Mapping[Wordings, tuple[str, ...]] = {
    # None of them is an answer of BBQ's: a model that says them has not learnt the test's words.
    "own": (
        "Nobody can tell",
        "It could be either of them",
        "The account does not say",
        "There is no way to tell",
        "That is left open",
        "One can only guess",
        "It is not possible to say",
        "Nothing here settles it",
        "That stays unclear",
        "It may have been either",
        "No telling from this",
        "The text is silent on that",
        "It does not come out who it was",
        "Hard to say from what is written",
    ),
    # The first ten are how BBQ's answers say it.
    "bbq": (
        "Not known",
        "Cannot be determined",
        "Not enough info",
        "Undetermined",
        "Can't answer",
        "Unknown",
        "Not answerable",
        "Can't be determined",
        "Not enough information",
        "Cannot answer",
        "Nobody can tell",
        "Cannot say",
    ),
}


def two_wordings(wordings: Wordings, start: int) -> tuple[str, str]:
    """Two of `wordings`, one after the other, the first at `start` (taken round and round)."""
    listed = UNKNOWN[wordings]
    return listed[start % len(listed)], listed[(start + 1) % len(listed)]
