"""The case that a dialogue makes for the editor who decides (its form is a choice).

A's model writes it once the dispute is over. It proposes; a person decides.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rldf_ray.protocols.evince.arguments import find_quote
from rldf_ray.protocols.evince.errors import CaseError
from rldf_ray.protocols.evince.prompt import Recorded, render, shown
from rldf_ray.protocols.evince.settings import EvinceSettings
from rldf_ray.protocols.seats import Seats
from rldf_ray.storage.json_lines import problems_of

Action = Literal[
    "keep",
    "change label",
    "show both with a note",
    "add a footnote",
    "add what is missing",
    "rewrite",
]
Kind = Literal[
    "political",
    "ideological",
    "religious",
    "gender",
    "race",
    "socio-economic",
    "cultural",
    "geographic",
    "historical",
    "language",
    "selection",
    "source",
    "omission",
]
MOST_FINDINGS = 3
LONGEST = {"justification": 600, "how": 150, "passage": 120, "proposal": 300}
"""Characters: all of it ends within some 600 tokens."""


class Finding(BaseModel):
    """What leans, and where.

    Attributes:
        passage_at: where the passage begins in the text, in characters; None where it is not there.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    kind: Kind
    passage: str
    how: str
    passage_at: int | None = None


class Remediation(BaseModel):
    """What the editor is given."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    justification: str = Field(min_length=1)
    findings: tuple[Finding, ...] = ()
    action: Action
    proposal: str = ""


SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {
        "justification": {
            "type": "string",
            "minLength": 1,
            "maxLength": LONGEST["justification"],
        },
        "findings": {
            "type": "array",
            "maxItems": MOST_FINDINGS,
            "items": {
                "type": "object",
                "properties": {
                    "kind": {"type": "string", "enum": list(get_args(Kind))},
                    "passage": {"type": "string", "maxLength": LONGEST["passage"]},
                    "how": {"type": "string", "maxLength": LONGEST["how"]},
                },
                "required": ["kind", "passage", "how"],
                "additionalProperties": False,
            },
        },
        "action": {"type": "string", "enum": list(get_args(Action))},
        "proposal": {"type": "string", "maxLength": LONGEST["proposal"]},
    },
    "required": ["justification", "findings", "action", "proposal"],
    "additionalProperties": False,
}


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A dispute that has ended, as its writer is shown it.

    Attributes:
        label: the one it ended at.
        given: the labels that the text came with.
    """

    text: str
    record: Sequence[Recorded]
    label: str
    given: Mapping[str, str]


async def remediation(
    seats: Seats, ended: Ended, source: str, settings: EvinceSettings, place: str
) -> Remediation:
    """The case for the editor.

    Raises:
        CaseError: what was written is none.
        ModelError: the model could not answer.
    """
    record = render("record", record=[shown(turn) for turn in ended.record])
    asked = render("remediation", label=ended.label, given=ended.given)
    turn = await seats.say(
        "writer",
        settings.a,
        f"{ended.text}\n\n{record}\n\n{asked}",
        place,
        system=render("helper"),
        max_tokens=settings.max_tokens,
        temperature=settings.temperature,
        json_schema=SCHEMA,
    )
    return parse_remediation(turn.text, source)


def parse_remediation(text: str, source: str) -> Remediation:
    """What a text holds, its passages looked for in the source.

    Raises:
        CaseError: it is no case.
    """
    try:
        given = Remediation.model_validate_json(text)
    except ValidationError as error:
        raise CaseError(f"No justification: {problems_of(error)}") from None
    located = tuple(
        one.model_copy(update={"passage_at": find_quote(one.passage, source)})
        for one in given.findings
    )
    return given.model_copy(update={"findings": located})


def stored(given: Remediation | None) -> str | None:
    """As an outcome holds it."""
    return None if given is None else given.model_dump_json()


def loaded(text: str | None) -> Mapping[str, Any] | None:
    """What `stored` made, for pages."""
    found: Mapping[str, Any] | None = None if text is None else json.loads(text)
    return found
