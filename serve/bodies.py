"""What requests may say, and what the engine is told.

These are OpenAI's fields as far as this server honours them. A field it does not know is refused
rather than ignored, so nobody believes in a setting that had no effect; `body.IGNORED` are those
that ask for nothing of an engine.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, model_validator

from rldf_ray.apps.serve.body import (
    IGNORED,
    Body,
    BodyError,
    Decoding,
    Text,
    at_most,
    characters,
    checked_form,
    fields_set,
)
from rldf_ray.apps.serve.settings import Limits, Settings
from rldf_ray.apps.serve.tools import ToolCall, ToolChoice, Tools, check_tools, drop_unused

# What answers have beside their text.
BESIDE = ("refusal", "annotations", "reasoning", "reasoning_content")
# Out of a tokenizer's vocabulary; the engine knows how large its is.
TokenId = Annotated[int, Field(ge=0, lt=2**31)]
TokenIds = Annotated[list[TokenId], Field(min_length=1, max_length=100_000)]


class TextPart(Body):
    type: Literal["text"]
    text: Text


class ChatMessage(Body):
    """A message; one of the assistant as any server answers it, so that clients can send it back.

    What an answer says beside its text is dropped: no model here reads it.
    """

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Text | list[TextPart]
    name: str | None = None
    tool_calls: Annotated[list[ToolCall], Field(max_length=128)] | None = None
    tool_call_id: Annotated[str, StringConstraints(max_length=200)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_what_is_beside(cls, given: object) -> object:
        if not isinstance(given, dict) or given.get("role") != "assistant":
            return given
        kept = {k: v for k, v in given.items() if k not in BESIDE and v not in ([], {})}
        return {"content": "", **{k: v for k, v in kept.items() if v is not None}}

    @model_validator(mode="after")
    def _calls_and_results(self) -> ChatMessage:
        if self.tool_calls is not None and self.role != "assistant":
            raise ValueError("tool_calls are the assistant's")
        if (self.role == "tool") != (self.tool_call_id is not None):
            raise ValueError("a tool's message, and no other, has the tool_call_id it answers")
        return self


class JSONSchema(Body):
    name: str = "answer"
    description: str | None = None
    schema_: dict[str, Any] | None = Field(None, alias="schema")
    strict: bool | None = None


class ResponseFormat(Body):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: JSONSchema | None = None


class StructuredOutputs(Body):
    """vLLM's own way to say it; exactly one of the two."""

    json_: dict[str, Any] | None = Field(None, alias="json")
    choice: list[Annotated[str, StringConstraints(min_length=1)]] | None = Field(None, min_length=1)

    @model_validator(mode="after")
    def _one(self) -> StructuredOutputs:
        if (self.json_ is None) == (self.choice is None):
            raise ValueError("give either json or choice")
        return self


class StreamOptions(Body):
    include_usage: bool = False
    include_obfuscation: bool = False


class Sampling(Decoding):
    """The fields that chat completions and completions share."""

    max_tokens: int | None = Field(None, ge=1)
    repetition_penalty: float | None = Field(None, gt=0, le=10)
    logit_bias: (
        Annotated[
            dict[
                Annotated[str, StringConstraints(pattern=r"^[0-9]{1,9}$")],
                Annotated[float, Field(ge=-100, le=100)],
            ],
            Field(max_length=1024),
        ]
        | None
    ) = None
    n: int | None = Field(None, ge=1)
    stop: (
        Annotated[str, StringConstraints(min_length=1, max_length=200)]
        | Annotated[
            list[Annotated[str, StringConstraints(min_length=1, max_length=200)]],
            Field(max_length=8),
        ]
        | None
    ) = None
    stream_options: StreamOptions | None = None
    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    guided_json: dict[str, Any] | None = None
    guided_choice: list[Annotated[str, StringConstraints(min_length=1)]] | None = Field(
        None, min_length=1
    )

    @property
    def wants_stream(self) -> bool:
        return bool(self.stream)

    @property
    def wants_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage


class ChatBody(Sampling):
    """POST /v1/chat/completions"""

    messages: list[ChatMessage] = Field(min_length=1, max_length=1000)
    max_completion_tokens: int | None = Field(None, ge=1)
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=20)
    tools: Tools | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None

    @model_validator(mode="after")
    def _top_needs_logprobs(self) -> ChatBody:
        if self.top_logprobs and not self.logprobs:
            raise ValueError("top_logprobs needs logprobs: true")
        return self


class CompletionBody(Sampling):
    """POST /v1/completions"""

    prompt: (
        Text
        | Annotated[list[Text], Field(min_length=1, max_length=64)]
        | TokenIds
        | Annotated[list[TokenIds], Field(min_length=1, max_length=64)]
    )
    max_tokens: int | None = Field(None, ge=0)
    echo: bool | None = None
    logprobs: int | None = Field(None, ge=0, le=5)
    prompt_logprobs: int | None = Field(None, ge=0, le=5)

    @model_validator(mode="after")
    def _nothing_needs_echo(self) -> CompletionBody:
        if self.max_tokens == 0 and not self.echo:
            raise ValueError("max_tokens: 0 needs echo: true")
        if self.prompt_logprobs is not None and self.stream:
            raise ValueError("prompt_logprobs are not streamed")
        return self

    @property
    def prompts(self) -> int:
        """How many there are."""
        if isinstance(self.prompt, str) or isinstance(self.prompt[0], int):
            return 1
        return len(self.prompt)


def engine_body(body: ChatBody | CompletionBody, settings: Settings) -> dict[str, Any]:
    """What the engine is sent: the fields that were set, checked against the limits.

    Raises:
        BodyError: the prompt, `n`, `max_tokens`, the tools or the output form are beyond a limit.
    """
    limits = settings.limits
    found = fields_set(body)
    drop_unused(found)
    for field in (*IGNORED, "model", "guided_json", "guided_choice"):
        found.pop(field, None)
    _check_prompt(body, limits)
    at_most("n", found.get("n", 1), limits.n)
    prompts = body.prompts if isinstance(body, CompletionBody) else 1
    at_most("n times prompts", found.get("n", 1) * prompts, limits.n)
    longest = found.pop("max_completion_tokens", None) or found.get("max_tokens")
    if longest is not None:
        found["max_tokens"] = at_most("max_tokens", longest, limits.max_tokens)
    if body.wants_stream:
        found["stream_options"] = {"include_usage": True}
    else:
        found.pop("stream_options", None)
    form = _form(body)
    if isinstance(body, ChatBody):
        _check_chat_tools(body, form, settings)
    if form is not None:
        found.pop("response_format", None)
        found["structured_outputs"] = checked_form(form, limits, "response_format")
    return found


def _check_chat_tools(body: ChatBody, form: object, settings: Settings) -> None:
    choice, functions = body.tool_choice, [tool.function for tool in body.tools or ()]
    check_tools(functions, choice, settings)
    if form is not None and functions and choice != "none":
        raise BodyError("tools and an output form exclude each other", "tools")


def prompt_of(body: ChatBody | CompletionBody) -> str:
    """All text of the prompt; token ids as numbers."""
    if isinstance(body, ChatBody):
        return "\n".join(content_of(message) for message in body.messages)
    if isinstance(body.prompt, str):
        return body.prompt
    return "\n".join(prompt if isinstance(prompt, str) else str(prompt) for prompt in body.prompt)


def content_of(message: ChatMessage) -> str:
    """All text of a message, its parts as vLLM puts them into a chat template."""
    if isinstance(message.content, str):
        return message.content
    return "\n".join(part.text for part in message.content)


def _check_prompt(body: ChatBody | CompletionBody, limits: Limits) -> None:
    prompt = prompt_of(body)
    length, field = len(prompt), "messages" if isinstance(body, ChatBody) else "prompt"
    if isinstance(body, ChatBody):
        beside = [message.tool_calls for message in body.messages] + [body.tools]
        length += sum(
            characters(part.model_dump(mode="json")) for parts in beside for part in parts or ()
        )
    prompt_characters(length, limits, field)
    if not prompt and isinstance(body, CompletionBody):
        raise BodyError("the prompt is empty", "prompt")


def prompt_characters(length: int, limits: Limits, param: str) -> None:
    """Nothing where a prompt of so many characters is taken.

    Raises:
        BodyError: it is too long.
    """
    if length > limits.prompt_characters:
        raise BodyError(
            f"the prompt has {length} characters; this server takes {limits.prompt_characters}",
            param,
        )


def _form(body: Sampling) -> dict[str, Any] | None:
    """The one output form a request asks for, in vLLM's words."""
    asked = [
        form
        for form in (
            body.structured_outputs
            and body.structured_outputs.model_dump(by_alias=True, exclude_none=True),
            {"json": body.guided_json} if body.guided_json is not None else None,
            {"choice": body.guided_choice} if body.guided_choice is not None else None,
            _form_of(body.response_format),
        )
        if form
    ]
    if len(asked) > 1:
        raise BodyError(
            "response_format, structured_outputs, guided_json and guided_choice exclude each other",
            "response_format",
        )
    return asked[0] if asked else None


def _form_of(response: ResponseFormat | None) -> dict[str, Any] | None:
    if response is None or response.type == "text":
        return None
    if response.type == "json_object":
        return {"json_object": True}
    if response.json_schema is None or response.json_schema.schema_ is None:
        raise BodyError("type json_schema needs json_schema.schema", "response_format")
    return {"json": response.json_schema.schema_}


class BiasBody(Body):
    """POST /v1/bias: `input` as answers to `prompt`."""

    input: Text | Annotated[list[Text], Field(min_length=1)]
    prompt: Text = Field("", description="what the texts answer; scores depend on it")
    referee: bool = Field(False, description="also ask the referee, 0 (none) to 10 (extreme)")

    @property
    def texts(self) -> list[str]:
        return [self.input] if isinstance(self.input, str) else self.input


class DebiasBody(Body):
    """POST /v1/debias"""

    messages: list[ChatMessage] = Field(min_length=1, max_length=100)
    options: list[Annotated[str, StringConstraints(min_length=1, max_length=500)]] = Field(
        [], max_length=9, description="answers to choose among; none for a free answer"
    )
    corpus: str | None = Field(None, description="what to search, by the server's name for it")
    max_passes: int = Field(3, ge=0)
    max_tokens: int = Field(240, ge=32)
    seed: int = Field(0, ge=0, lt=2**31)
    model: str | None = Field(None, description="who answers; the judge is the server's referee")

    @model_validator(mode="after")
    def _more_than_one(self) -> DebiasBody:
        if len(self.options) == 1:
            raise ValueError("options: give two or more, or none")
        return self


class EvinceBody(Body):
    """POST /v1/evince"""

    text: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=20_000)]
    target: str = Field("the subject", max_length=200, description="whom the label is about")
    scale: str = Field("toward", description="a label scale that ships with the package")
    given: str | None = Field(None, description="the label that A defends; null: the model's own")
    rounds: int = Field(4, ge=1)
    max_tokens: int = Field(512, ge=64)
    seed: int = Field(0, ge=0, lt=2**31)
    model: str | None = Field(None, description="who argues, on both sides; the judge is served")


class DebateBody(Body):
    """POST /v1/debate"""

    topic: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)]
    bias_type: str = Field("age", description="whose identities debate")
    debaters: int = Field(3, ge=2, le=5)
    rounds: int = Field(2, ge=1)
    max_tokens: int = Field(96, ge=8)
    temperature: float = Field(1.0, ge=0, le=2)
    seed: int = Field(0, ge=0, lt=2**31)
    model: str | None = Field(None, description="who debates; the referee is the server's")
