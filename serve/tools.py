"""Tools: functions that a model may ask its caller to call, in OpenAI's form.

An engine has to know how its model writes a call (`engine.tool_call_parser`); with most of vLLM's
parsers it then decodes the arguments by the function's schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Protocol

from pydantic import Field, StringConstraints

from rldf_ray.apps.serve.body import Body, BodyError, Text, checked_form
from rldf_ray.apps.serve.output_forms import is_cheap
from rldf_ray.apps.serve.settings import Settings

MOST_TOOLS = 64
# Of one request: an engine compiles them all, each for some seconds, and for nobody else meanwhile.
MOST_COSTLY = 2
Name = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9_.-]{1,64}$")]


class Function(Body):
    name: Name
    description: Text | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(Body):
    type: Literal["function"]
    function: Function


class NamedFunction(Body):
    name: Name


class NamedTool(Body):
    type: Literal["function"]
    function: NamedFunction

    @property
    def called(self) -> str:
        return self.function.name


class CalledFunction(Body):
    name: Name
    arguments: Text


class ToolCall(Body):
    """A call as an answer has it; those put together from a stream may have its `index`."""

    id: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    type: Literal["function"] = "function"
    function: CalledFunction
    index: int | None = Field(None, exclude=True)


Tools = Annotated[list[Tool], Field(max_length=MOST_TOOLS)]
ToolChoice = Literal["none", "auto", "required"] | NamedTool


class Named(Protocol):
    """A choice of one function, in the form of either route."""

    @property
    def called(self) -> str: ...


def drop_unused(body: dict[str, Any]) -> None:
    """Take out what is about tools where there are none, or none may be called."""
    if not body.get("tools") or body.get("tool_choice") == "none":
        for field in ("tools", "tool_choice", "parallel_tool_calls"):
            body.pop(field, None)


def check_tools(
    functions: Sequence[Function], choice: str | Named | None, settings: Settings
) -> None:
    """Look through the tools of a request before an engine sees them.

    Args:
        choice: "none", "auto", "required" or a function; None where nothing was said.

    Raises:
        BodyError: a schema goes too far, or nothing here could make the call.
    """
    schemas = [function.parameters or {} for function in functions]
    for schema in schemas:
        checked_form({"json": schema}, settings.limits, "tools")
    costly = sum(not is_cheap(schema) for schema in schemas)
    if costly > MOST_COSTLY:
        raise BodyError(
            f"{costly} of the tools' schemas count far or have patterns, which take long to "
            f"compile; this server takes {MOST_COSTLY}",
            "tools",
        )
    if not functions:
        if choice not in (None, "none"):
            raise BodyError("tool_choice needs tools", "tool_choice")
        return
    names = [function.name for function in functions]
    if choice is not None and not isinstance(choice, str) and choice.called not in names:
        raise BodyError(
            f"tool_choice names {choice.called!r}; the tools are {', '.join(names)}", "tool_choice"
        )
    if choice != "none" and settings.engine.tool_call_parser is None:
        raise BodyError(
            "this server does not know how its models write a call: set engine.tool_call_parser in "
            "its settings, or send no tools",
            "tools",
        )
