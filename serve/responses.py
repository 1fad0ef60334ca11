"""POST /v1/responses, OpenAI's newer form of a chat, and vLLM's /tokenize and /detokenize.

Nothing is kept here: a conversation is sent whole with each request.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from rldf_ray.apps.serve.bodies import ChatMessage, TokenIds, content_of, prompt_characters
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
from rldf_ray.apps.serve.settings import Settings
from rldf_ray.apps.serve.tools import MOST_TOOLS, Function, Name, check_tools, drop_unused

Identifier = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class Part(Body):
    """A part of a message, and what an answer's has beside its text."""

    type: Literal["input_text", "output_text"]
    text: Text
    annotations: Annotated[list[Any], Field(max_length=0)] | None = None
    logprobs: Annotated[list[Any], Field(max_length=0)] | None = None


class InputMessage(Body):
    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: Text | Annotated[list[Part], Field(max_length=100)]
    id: Identifier | None = None
    status: Literal["in_progress", "completed", "incomplete"] | None = None
    phase: str | None = Field(None, exclude=True)


class FunctionCall(Body):
    type: Literal["function_call"]
    call_id: Identifier
    name: Name
    arguments: Text
    id: Identifier | None = None
    status: Literal["in_progress", "completed", "incomplete"] | None = None
    namespace: str | None = Field(None, exclude=True)
    caller: Any = Field(None, exclude=True)


class FunctionOutput(Body):
    type: Literal["function_call_output"]
    call_id: Identifier
    output: Text
    id: Identifier | None = None
    status: Literal["in_progress", "completed", "incomplete"] | None = None


class ResponsesTool(Function):
    type: Literal["function"]
    defer_loading: Literal[False] | None = Field(None, exclude=True)


class NamedTool(Body):
    type: Literal["function"]
    name: Name

    @property
    def called(self) -> str:
        return self.name


class Format(Body):
    type: Literal["text", "json_object", "json_schema"]
    name: str | None = None
    description: str | None = None
    schema_: dict[str, Any] | None = Field(None, alias="schema")
    strict: bool | None = None


class TextForm(Body):
    format: Format | None = None


class Reasoning(Body):
    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None


class ResponsesBody(Decoding):
    """POST /v1/responses"""

    input: (
        Text
        | Annotated[
            list[InputMessage | FunctionCall | FunctionOutput], Field(min_length=1, max_length=1000)
        ]
    )
    instructions: Text | None = None
    max_output_tokens: int | None = Field(None, ge=1)
    background: Literal[False] | None = None
    truncation: Literal["disabled"] | None = None
    text: TextForm | None = None
    reasoning: Reasoning | None = None
    tools: Annotated[list[ResponsesTool], Field(max_length=MOST_TOOLS)] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = None
    parallel_tool_calls: bool | None = None
    include: list[Literal["reasoning.encrypted_content"]] | None = Field(
        None, description="what comes with every answer here: nothing more"
    )

    @property
    def format(self) -> Format | None:
        return self.text.format if self.text is not None else None


def responses_engine_body(body: ResponsesBody, settings: Settings) -> dict[str, Any]:
    """What the engine is sent, checked against the limits.

    Raises:
        BodyError: the input, the tools, `max_output_tokens` or the output form are beyond a limit.
    """
    limits = settings.limits
    found = fields_set(body)
    drop_unused(found)
    for field in (*IGNORED, "include", "model", "background", "truncation"):
        found.pop(field, None)
    said = [found["input"], found.get("instructions"), found.get("tools")]
    prompt_characters(characters(said), limits, "input")
    if isinstance(body.input, list):
        found["input"] = [
            _plain(item) if isinstance(given, InputMessage) else item
            for given, item in zip(body.input, found["input"], strict=True)
        ]
    if body.max_output_tokens is not None:
        at_most("max_output_tokens", body.max_output_tokens, limits.max_tokens)
    check_tools(body.tools or (), body.tool_choice, settings)
    form = body.format
    if form is not None and form.type == "json_schema":
        if form.schema_ is None:
            raise BodyError("text.format of type json_schema needs a schema", "text")
        found["text"]["format"].setdefault("name", "answer")
        checked_form({"json": form.schema_}, limits, "text")
    if form is not None and form.type != "text" and body.tools and body.tool_choice != "none":
        raise BodyError("tools and an output form exclude each other", "tools")
    return {**found, "store": False}


def _plain(item: dict[str, Any]) -> dict[str, Any]:
    """A message with its text in one piece: of several, or none, vLLM reads an answer's first."""
    content = item["content"]
    if not isinstance(content, str):
        content = "".join(part["text"] for part in content)
    return {"type": "message", "role": item["role"], "content": content}


class TokenizeBody(Body):
    """POST /tokenize: a text as it is, or messages as the chat template writes them."""

    model: str | None = None
    prompt: Text | None = None
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=1000)] | None = None
    add_special_tokens: bool | None = None
    add_generation_prompt: bool | None = None
    return_token_strs: bool | None = None


class DetokenizeBody(Body):
    """POST /detokenize"""

    model: str | None = None
    tokens: TokenIds


def tokenize_body(body: TokenizeBody, settings: Settings) -> dict[str, Any]:
    """What the engine is sent.

    Raises:
        BodyError: neither a text nor messages, or both, or too long.
    """
    if (body.prompt is None) == (body.messages is None):
        raise BodyError("give either prompt or messages", "prompt")
    found = body.model_dump(mode="json", exclude_none=True, exclude={"model"})
    field = "prompt" if body.messages is None else "messages"
    prompt_characters(characters(found[field]), settings.limits, field)
    for message in body.messages or ():
        if message.role == "tool" or message.tool_calls:
            raise BodyError("messages: calls of tools are not counted here", "messages")
    if body.messages is not None:
        # As the engine writes them: texts in one piece, and a developer as the system.
        found["messages"] = [
            {"role": "system" if m.role == "developer" else m.role, "content": content_of(m)}
            for m in body.messages
        ]
    return found
