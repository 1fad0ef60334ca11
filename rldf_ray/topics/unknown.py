"""How one says that something is not known."""

from __future__ import annotations

# Small models repeat their instructions' words, and what is learnt from one wording does not reach
# another; so each debate's prompts name two others. The first ten are how BBQ's answers say it.
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
