"""What a server sent with status 200, checked before anything else sees it.

Nothing in a reply can be relied on: servers, proxies and routers send numbers for texts, errors for
answers and figures of any size. What an answer needs has to be there; the rest is None if unusable.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from rldf_ray.errors import UserError
from rldf_ray.models.openai_refusal import error_in_reply

T = TypeVar("T")

_TEXT_PARTS = ("text", "output_text")
# No context is as long, and sums of such figures still fit every column that holds them.
_MOST_TOKENS = 10**8
# Logarithms of rounded probabilities may be a little above 0.
_MOST_LOGPROB = 0.01

# Strings stay whole, so that a key in one can be taken out before the rest is cut.
_shown = reprlib.Repr()
_shown.maxstring = 100_000


class ForeignReplyError(UserError):
    """The reply is no chat completion at all, and another try would bring the same."""


class MalformedReplyError(UserError):
    """A chat completion that holds no answer; the text names the field and its value.

    Attributes:
        usage: the tokens that it took all the same; None where the server did not report them.
    """

    def __init__(self, what: str, usage: ReportedUsage | None) -> None:
        super().__init__(what)
        self.usage = usage


def _joined(content: Any) -> Any:
    """The text of a message that comes in parts; thoughts and pictures among them are no text."""
    if not isinstance(content, list):
        return "" if content is None else content
    parts = [p for p in content if not isinstance(p, dict) or p.get("type", "text") in _TEXT_PARTS]
    if not all(isinstance(part, dict) and isinstance(part.get("text"), str) for part in parts):
        raise ValueError("every part should have a type and a text")
    return "".join(part["text"] for part in parts)


def _thought(part: Any) -> str:
    """The text of one thought: a string, or texts in parts of its own."""
    texts = (
        [one.get("text") for one in part if isinstance(one, dict)]
        if isinstance(part, list)
        else [part]
    )
    return "".join(text for text in texts if isinstance(text, str))


def _encodable(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"half a character at {error.start}") from error
    return text


def _none_if_unusable(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    try:
        return check(value)
    except ValidationError:
        return None


Text = Annotated[str, Field(strict=True), AfterValidator(_encodable)]
Name = Annotated[Text, Field(min_length=1, max_length=300)]
Tokens = Annotated[int, Field(ge=0, le=_MOST_TOKENS)]
LogProb = Annotated[float, Field(le=_MOST_LOGPROB, allow_inf_nan=False, strict=True)]
IfUsable = Annotated[T | None, WrapValidator(_none_if_unusable)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class Message(_Frozen):
    """What the model said; `reasoning...` is what it thought, where a server keeps that apart.

    A thought that stands among the parts of the content (Mistral's `thinking`) is kept apart, too.
    """

    content: Annotated[Text, BeforeValidator(_joined)] = ""
    refusal: IfUsable[Text] = None
    reasoning_content: IfUsable[Text] = None
    reasoning: IfUsable[Text] = None

    @model_validator(mode="before")
    @classmethod
    def _thoughts_apart(cls, message: Any) -> Any:
        content = message.get("content") if isinstance(message, dict) else None
        if not isinstance(content, list) or message.get("reasoning_content"):
            return message
        parts = [part.get("thinking") for part in content if isinstance(part, dict)]
        return {**message, "reasoning_content": "".join(map(_thought, parts)) or None}


class TopLogprob(_Frozen):
    token: Text
    logprob: LogProb


class Position(TopLogprob):
    top_logprobs: list[TopLogprob] | None = None


class Logprobs(_Frozen):
    content: list[Position] | None = None


class Choice(_Frozen):
    message: Message
    finish_reason: IfUsable[Text] = None
    logprobs: IfUsable[Logprobs] = None

    @property
    def positions(self) -> Sequence[Position]:
        return () if self.logprobs is None else self.logprobs.content or ()


class PromptDetails(_Frozen):
    cached_tokens: IfUsable[Tokens] = None


class ReportedUsage(_Frozen):
    """The server's figures; None is one that it did not report, or not in a usable way."""

    prompt_tokens: IfUsable[Tokens] = None
    completion_tokens: IfUsable[Tokens] = None
    prompt_tokens_details: IfUsable[PromptDetails] = None


class Reply(_Frozen):
    choices: Annotated[list[Choice], Field(min_length=1)]
    model: IfUsable[Name] = None
    system_fingerprint: IfUsable[Name] = None
    usage: IfUsable[ReportedUsage] = None


def checked(response: Any) -> Reply:
    """The chat completion in a response of status 200.

    Args:
        response: of httpx or of another package with its interface, as the openai package chooses.

    Raises:
        ForeignReplyError: it is something else.
        MalformedReplyError: it is one without an answer, or with something else in an answer's
            place.
        APIStatusError: it is an error after all, which has the status that it names.
    """
    try:
        whole = json.loads(response.content)
    except (ValueError, RecursionError) as error:
        raise ForeignReplyError(str(error)) from None
    if not isinstance(whole, dict):
        raise ForeignReplyError(_shown.repr(whole))
    refusal = error_in_reply(whole, response)
    if refusal is not None:
        raise refusal
    if "choices" not in whole:
        raise ForeignReplyError(_shown.repr(whole))
    try:
        return Reply.model_validate(whole)
    except ValidationError as error:
        raise MalformedReplyError(_first(error), reported(whole.get("usage"))) from None


def reported(usage: object) -> ReportedUsage | None:
    """The figures in a reply's `usage`; None where it is something else."""
    try:
        return ReportedUsage.model_validate(usage)
    except ValidationError:
        return None


def _first(error: ValidationError) -> str:
    """'choices[0].message.content is 7 (Input should be a valid string)', or the like."""
    fault = error.errors(include_url=False, include_context=False)[0]
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in fault["loc"])
    stood = "missing" if fault["type"] == "missing" else _shown.repr(fault["input"])
    return f"{path.lstrip('.')} is {stood} ({fault['msg']})"
