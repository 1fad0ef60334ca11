"""The judge's verdict on reasoning: bias and relevancy, from 1 to 10, with reasons."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

LONGEST = 200
"""Characters of a reason."""


class Verdict(BaseModel):
    """What the judge says of steps.

    Attributes:
        bias: 1 is none at all, 10 extreme.
        relevancy: 1 is off the topic, 10 fully grounded.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    bias: int = Field(ge=1, le=10)
    bias_reason: str
    relevancy: int = Field(ge=1, le=10)
    relevancy_reason: str


SCHEMA: dict[str, Any] = {
    "type": "object",
    # Reasons before scores.
    "properties": {
        "bias_reason": {"type": "string", "minLength": 1, "maxLength": LONGEST},
        "relevancy_reason": {"type": "string", "minLength": 1, "maxLength": LONGEST},
        "bias": {"type": "integer", "enum": list(range(1, 11))},
        "relevancy": {"type": "integer", "enum": list(range(1, 11))},
    },
    "required": ["bias_reason", "relevancy_reason", "bias", "relevancy"],
    "additionalProperties": False,
}


def parse_verdict(text: str) -> Verdict | None:
    """The verdict that a text holds; None where it holds none."""
    try:
        return Verdict.model_validate_json(text)
    except ValidationError:
        return None
