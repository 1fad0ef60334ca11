"""How one says that something is not known."""

from __future__ import annotations

# Small models say what they are told to say, and what is learnt from one wording does not reach
# another; so each debate is told of two others. The first ten are how BBQ's answers say it.
UNKNOWN = (
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
)
