"""What a server's refusal is about: one of the request's fields, or the words of its prompt."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from openai import APIStatusError

from rldf_ray.errors import UserError
from rldf_ray.storage.json_text import json_text

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
_OTHER_REASON = re.compile(
    rf"{_TOO_LONG.pattern}|n[o']t (?:found|exist)|(?:no such|unknown|invalid) model|api.?key|quota",
    re.IGNORECASE,
)
_LIMITS = ("max_tokens", "max_completion_tokens")

# What errors without a number call themselves, in replies of status 200.
_CALLED_STATUS = (
    (r"rate.?limit|too.?many|quota|throttl|exhausted", 429),
    (r"overload|unavailable", 503),
    (r"time.?out|deadline", 408),
    (r"authentica|invalid.?api.?key|unauthori", 401),
    (r"permission|forbidden", 403),
    (r"not.?found", 404),
    (r"invalid|bad.?request|unsupported|content.?(?:filter|policy)", 400),
)
_NO_STATUS = 500

# Azure, OpenAI, Alibaba's, DeepSeek's, OpenRouter's.
_FILTERED = re.compile(
    r"content[_ ]?(?:filter|(?:management )?policy|exists risk|moderation)"
    r"|ResponsibleAIPolicy|data_?inspection_?failed|usage polic|requires moderation",
    re.IGNORECASE,
)


# OpenAI's, and how others of its kind call it.
_OUT_OF_CREDIT = re.compile(r"insufficient_(?:quota|balance|credits|funds)|billing_\w+")


def is_out_of_credit(error: APIStatusError) -> bool:
    """Whether a refusal that looks like a rate limit is of an account that has nothing left.

    By its code or type alone: texts of rate limits speak of quotas, too.
    """
    return any(
        _OUT_OF_CREDIT.fullmatch(named.casefold()) is not None
        for named in (error.code, error.type)
        if isinstance(named, str)
    )


def is_filtered(error: APIStatusError) -> bool:
    """Whether a content filter refused these words; another prompt is answered all the same."""
    if error.status_code not in (400, 403, 422, 451):
        return False
    return _FILTERED.search(f"{error.code} {json_text(error.body)}") is not None


def is_too_long(error: APIStatusError) -> bool:
    """Whether this prompt exceeds what the model reads; a shorter one is answered all the same."""
    if error.status_code not in (400, 413, 422):
        return False
    return _TOO_LONG.search(f"{error.code} {reason_of(error)}".replace("_", " ")) is not None


def is_about_fields(error: BaseException) -> bool:
    """Whether a refusal can be about the request's fields, named or not.

    Those of a length, a model or a key give their reason, which is another.
    """
    return (
        isinstance(error, APIStatusError)
        and error.status_code in _STATUSES
        and not is_filtered(error)
        and not _OTHER_REASON.search(f"{error.code} {reason_of(error)}")
    )


def refused_field(error: BaseException, sent: Collection[str]) -> str | None:
    """The field of `sent` that the server says it does not take; None if it names none."""
    if not isinstance(error, APIStatusError) or error.status_code not in _STATUSES:
        return None
    text = reason_of(error)
    named = " ".join(f"'{name}'" for name in _named(error.body)) or text
    known = set(sent) - set(_LIMITS if _TOO_LONG.search(text) else ())
    return next((name for name in FIELDS if name in known and _NAMES[name].search(named)), None)


class ErrorInReplyError(APIStatusError, UserError):
    """An error that a server or router put into a reply of status 200.

    Attributes:
        usage: what the reply says that it took, unchecked.
        texts: what stands in place of the answers: none where none was begun.
    """

    def __init__(self, status: int, response: Any, body: object, reply: Mapping[str, Any]) -> None:
        named = type(response)(status, headers=response.headers, request=response.request)
        super().__init__(f"error in a reply: {status}", response=named, body=body)
        self.usage = reply.get("usage")
        self.texts = _texts(reply.get("choices"))


def error_in_reply(reply: Mapping[str, Any], response: Any) -> ErrorInReplyError | None:
    """The error in a reply of status 200; None if there is none.

    It has the status that it names, in figures or by its type, and 500 if it names none. One
    sample's error is that of the whole reply.
    """
    body = reply.get("error")
    if not body and "error" in (reply.get("object"), reply.get("type")):
        body = reply
    choices = reply.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if not body and isinstance(choice, dict):
            failed = choice.get("finish_reason") == "error"
            body = choice.get("error") or ("the model failed" if failed else None)
    if not body:
        return None
    return ErrorInReplyError(_status_named(body), response, body, reply)


def _texts(choices: Any) -> Sequence[str]:
    """What each of them says and thinks, as far as it is text; half characters are left out."""
    parts = choices if isinstance(choices, list) else ()
    messages = [part.get("message") for part in parts if isinstance(part, dict)]
    return [
        "".join(str(message.get(name) or "") for name in ("content", "reasoning_content"))
        .encode("utf-8", "ignore")
        .decode()
        for message in messages
        if isinstance(message, dict)
    ]


def _status_named(error: Any) -> int:
    named = (
        [error.get(name) for name in ("code", "status", "type")] if isinstance(error, dict) else []
    )
    for value in map(str, named):
        if re.fullmatch("[45][0-9][0-9]", value):
            return int(value)
    text = " ".join(value for value in named if isinstance(value, str))
    return next(
        (status for called, status in _CALLED_STATUS if re.search(called, text, re.IGNORECASE)),
        _NO_STATUS,
    )


def reason_of(error: APIStatusError) -> str:
    """What the server says, in one line; empty if it says nothing."""
    # Servers repeat parts of a wrong key when they refuse it.
    if error.status_code == 401:
        return ""
    said = _said(error.body)
    text = said if isinstance(said, str) else json_text(said) if said else ""
    # Half a character can be neither printed nor written.
    return " ".join(text.encode("utf-8", "backslashreplace").decode().split())


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
