"""The reader, arm by arm: nothing, the question, its paragraph, what was found, or both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from rldf_ray.prompts import prompts_beside
from rldf_ray.protocols.mabrf.agents import Agents
from rldf_ray.protocols.mabrf.evidence import Evidence
from rldf_ray.protocols.mabrf.settings import SquadArm

render = prompts_beside(__file__)

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "answerable": {"type": "boolean"},
        "answer": {"type": "string", "maxLength": 160},
    },
    "required": ["answerable", "answer"],
    "additionalProperties": False,
}


class _Reply(BaseModel):
    model_config = ConfigDict(extra="ignore")
    answerable: bool
    answer: str


@dataclass(frozen=True, slots=True)
class Read:
    """What the reader answered.

    Attributes:
        prediction: "" for no answer; None where the reply is none.
    """

    prediction: str | None


async def read(agents: Agents, arm: SquadArm, evidence: Evidence | None, place: str) -> Read:
    """The reader's answer in an arm.

    Args:
        evidence: what was found, in the arms with search.
    """
    if arm == "empty":
        return Read("")
    item, settings = agents.item, agents.settings
    prompt = render(
        "reader",
        question=item.question,
        paragraph=item.context if arm in ("context", "search+context") else "",
        summary=evidence.summary if evidence is not None and "search" in arm else "",
    )
    turn = await agents.seats.say(
        "reader",
        settings.solver,
        prompt,
        f"{place}/reader",
        system=render("system"),
        max_tokens=settings.squad.max_tokens,
        temperature=0.0,
        json_schema=SCHEMA,
    )
    try:
        reply = _Reply.model_validate_json(turn.text)
    except ValidationError:
        return Read(None)
    return Read(reply.answer.strip() if reply.answerable else "")


def reasoning() -> str:
    """The sentence that stands where the search agent is shown reasoning elsewhere."""
    return render("reasoning")
