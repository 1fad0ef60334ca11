"""The order of a debater's prompt. Both layouts say the same sentences.

    shared   system | topic, transcript (grows, never changes) | whose turn it is
    paper    system | whose turn it is | topic, transcript

An engine reuses what prompts have in common from their first token on: under `shared` that is all
but the last paragraph, for every debater and into the next round; under `paper`, which has the role
first as the paper's prompt does, little more than the system prompt.
"""

from __future__ import annotations

from typing import Literal

from rldf_ray.models.base import Message
from rldf_ray.prompts import render

Layout = Literal["shared", "paper"]


def laid_out(layout: Layout, discussion: str, turn: str) -> tuple[Message, ...]:
    """The messages of one turn, after `discussion`: topic and transcript so far."""
    parts = (discussion, turn) if layout == "shared" else (turn, discussion)
    return (Message("system", render("debate_system")), Message("user", "\n\n".join(parts)))
