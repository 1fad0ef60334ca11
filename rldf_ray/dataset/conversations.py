"""A preference as people write it down, and what it says: a prompt, a better and a worse answer.

    prompt: text or messages      chosen, rejected: text, an answer's messages, a whole conversation

Public sets have all of these. Whichever it is, the last message of a side is its answer, and what
comes before is what both sides answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator

from rldf_ray.dataset.texts import AnyText, without_thinking

Role = Literal["system", "user", "assistant"]


class Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    role: Role
    content: AnyText

    @model_validator(mode="before")
    @classmethod
    def _answers_without_thinking(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("role") == "assistant":
            content = given.get("content")
            if isinstance(content, str):
                return {**given, "content": without_thinking(content)}
        return given


Messages = tuple[Message, ...]


def _spoken_by(role: Role) -> BeforeValidator:
    """A text alone is a message of `role`."""

    def messages(given: Any) -> Any:
        if isinstance(given, str):
            return [{"role": role, "content": given}]
        if isinstance(given, list | tuple):
            return given
        raise ValueError("should be a text or a list of messages, each with role and content")

    return BeforeValidator(messages)


Asked = Annotated[Messages, _spoken_by("user")]
Answered = Annotated[Messages, _spoken_by("assistant")]


@dataclass(frozen=True)
class Preference:
    """Two answers to one conversation, which ends with the user's turn."""

    prompt: Messages
    chosen: Message
    rejected: Message


def preference(prompt: Messages | None, chosen: Messages, rejected: Messages) -> Preference:
    """What the three say.

    Args:
        prompt: None where both sides are whole conversations.

    Raises:
        ValueError: the sides do not answer the same conversation, or hold nothing to prefer.
    """
    if prompt is not None and not prompt:
        raise ValueError("prompt holds no message; allowed: one at least")
    asked, good = _turns("chosen", chosen, prompt)
    also_asked, bad = _turns("rejected", rejected, prompt)
    if not _same(asked, also_asked):
        raise ValueError(
            "chosen and rejected answer different conversations; allowed: sides that differ in "
            "their last message alone"
        )
    if asked[-1].role != "user" or not asked[-1].content.strip():
        raise ValueError("the message before the answers is not the user's, or empty")
    if good.content == bad.content:
        raise ValueError("chosen and rejected are the same")
    return Preference(asked, good, bad)


def _turns(name: str, side: Messages, prompt: Messages | None) -> tuple[Messages, Message]:
    """The conversation that a side answers, and its answer."""
    if not side or side[-1].role != "assistant" or not side[-1].content.strip():
        raise ValueError(
            f"{name} does not end with an answer; allowed: a text, or messages of which the last "
            "is the assistant's and not empty"
        )
    *before, answer = side
    asked = tuple(before)
    if side[0].role == "assistant":
        if prompt is None:
            raise ValueError(
                f"prompt is missing, and {name} begins with the assistant; allowed: a prompt, or "
                "sides that are whole conversations"
            )
        return (*prompt, *asked), answer
    if (
        prompt is None
        or _same(asked[: len(prompt)], prompt)
        or _same(asked[-len(prompt) :], prompt)
    ):
        return asked, answer
    raise ValueError(
        f"{name} is a conversation with another prompt; allowed: one that has the prompt's "
        "messages before its answer"
    )


def _same(some: Iterable[Message], others: Iterable[Message]) -> bool:
    """But for white space around them, which sets trim in one place and keep in the other."""
    first, second = ([(m.role, m.content.strip()) for m in messages] for messages in (some, others))
    return first == second
