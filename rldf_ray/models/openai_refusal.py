"""What a server's refusal is about: one of the request's fields, or the words of its prompt."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

from openai import APIStatusError

# What refusals call the fields that a request can do without. Where one names several, the first
# of this order goes first: what shapes answers least.
_CALLED = {
    "structured_outputs": r"structured[_ -]?outputs?|guided[_ ]\w+",
    "response_format": r"response_format|json_schema|structured[_ -]?outputs?|guided[_ ]\w+",
    "seed": r"seed",
    "n": r"(?<=['\"`])n(?=['\"`])",
    "top_p": r"top_p",
    "logprobs": r"(?:top_)?logprobs?|log[- ]prob(?:abilitie)?s",
    "max_tokens": r"max_tokens",
    "max_completion_tokens": r"max_completion_tokens",
    "temperature": r"temperature",
}
FIELDS = tuple(_CALLED)
_NAMES = {
    field: re.compile(rf"(?<![\w-])(?:{called})(?![\w-])", re.IGNORECASE)
    for field, called in _CALLED.items()
}
_STATUSES = (400, 404, 422, 500, 501)
# A prompt that is too long is no field that the server does not know, though it may name one.
_TOO_LONG = re.compile(r"too (?:large|long)|context (?:length|window)", re.IGNORECASE)
_LIMITS = ("max_tokens", "max_completion_tokens")

# Azure, OpenAI, Alibaba's, DeepSeek's, OpenRouter's.
_FILTERED = re.compile(
    r"content[_ ]?(?:filter|(?:management )?policy|exists risk|moderation)"
    r"|ResponsibleAIPolicy|data_?inspection_?failed|usage polic|requires moderation",
    re.IGNORECASE,
)


def is_filtered(error: APIStatusError) -> bool:
    """Whether a content filter refused these words; another prompt is answered all the same."""
    if error.status_code not in (400, 403, 422, 451):
        return False
    return _FILTERED.search(f"{error.code} {json.dumps(error.body)}") is not None


def refused_field(error: BaseException, sent: Collection[str]) -> str | None:
    """The field of `sent` that the server says it does not take; None if it names none."""
    if not isinstance(error, APIStatusError) or error.status_code not in _STATUSES:
        return None
    text = reason_of(error)
    named = " ".join(f"'{name}'" for name in _named(error.body)) or text
    known = set(sent) - set(_LIMITS if _TOO_LONG.search(text) else ())
    return next((name for name in FIELDS if name in known and _NAMES[name].search(named)), None)


def reason_of(error: APIStatusError) -> str:
    """What the server says, in one line; empty if it says nothing."""
    # Servers repeat parts of a wrong key when they refuse it.
    if error.status_code == 401:
        return ""
    said = _said(error.body)
    text = said if isinstance(said, str) else json.dumps(said) if said else ""
    return " ".join(text.split())


def _said(body: Any) -> Any:
    if isinstance(body, list) and body:
        return _said(body[0])
    if isinstance(body, dict):
        for name in ("error", "message", "detail", "msg"):
            if body.get(name):
                return _said(body[name])
    return body


def _named(body: Any) -> Iterator[str]:
    """The fields that the error lists apart from its text: `param`, or pydantic's `loc`."""
    if isinstance(body, list):
        for part in body:
            yield from _named(part)
    elif isinstance(body, dict):
        if isinstance(body.get("param"), str):
            yield body["param"]
        if isinstance(body.get("loc"), list):
            yield from (str(part) for part in body["loc"])
        for name in ("error", "message", "detail"):
            yield from _named(body.get(name))
