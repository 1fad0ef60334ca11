"""The order of a debater's prompt. Both layouts say the same sentences.

    shared   system, who may debate | topic, transcript (grows, never changes) | whose turn it is
    paper    system, who may debate | whose turn it is | topic, transcript

An engine reuses what prompts have in common from their first token on: under `shared` that is all
but the last paragraph, for every debater and into the next round; under `paper`, which has the role
first as the paper's prompt does, little more than the system prompt. Who may debate is the same in
all debates of a bias type, so their lives stand in the system prompt, and a turn is a few words
long. All of them stand there, however many debate: so a first round is the beginning of the first
round of a larger table, and a sweep over the number of roles need not hold it again. On a judgement
topic nobody's life stands there: small models spoke of it instead of the account.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field

from rldf_ray.prompts import prompts_beside
from rldf_ray.records import Identity, TopicKind

render = prompts_beside(__file__)

Layout = Literal["shared", "paper"]


def turn_prompt(layout: Layout, discussion: str, turn: str) -> str:
    """The prompt of one turn after `discussion`, which is the topic and the transcript so far."""
    return "\n\n".join((discussion, turn) if layout == "shared" else (turn, discussion))


def system_prompt(
    identities: Sequence[Identity],
    examples: int,
    kind: TopicKind = "opinion",
    unknown: Sequence[str] = (),
) -> str:
    """What every prompt of debates at a table of `identities` begins with, under both layouts.

    Args:
        examples: statements of other debates on opinions that are shown (`debate_examples`).
        unknown: on a judgement topic, the ways it names to say that something is not known.
    """
    if kind == "judgement":
        return render("system_judgement", unknown=unknown)
    return render("system", identities=identities, examples=debate_examples(examples))


class DebateExample(BaseModel):
    """A statement on a topic of no bias type, with the score it deserves."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    identity: str
    topic: str
    text: str
    score: float = Field(ge=0, le=10)


@cache
def debate_examples(number: int) -> tuple[DebateExample, ...]:
    """The first `number` statements of prompts/examples.yaml; fewer where it has fewer."""
    listed = yaml.safe_load(
        (Path(__file__).parent / "prompts" / "examples.yaml").read_text(encoding="utf-8")
    )
    return tuple(DebateExample.model_validate(example) for example in listed[:number])
