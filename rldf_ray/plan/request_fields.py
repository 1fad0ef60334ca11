"""Values that a plan hands on as they are: to chat templates, and into requests to endpoints."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, JsonValue

from rldf_ray.storage.json_text import exact_json

SET_BY_US = frozenset(
    {
        "model",
        "messages",
        "max_tokens",
        "max_completion_tokens",
        "temperature",
        "top_p",
        "seed",
        "n",
        "response_format",
        "structured_outputs",
        "logprobs",
        "top_logprobs",
        "reasoning_effort",
        "chat_template_kwargs",
    }
)
"""Fields of a request that come from the plan's other fields, or from the run."""
NEVER_READ = frozenset({"stream", "stream_options", "tools", "tool_choice", "functions"})
"""Fields that make an answer of another form."""
OF_THE_RENDERER = frozenset(
    {
        "messages",
        "conversation",
        "tools",
        "documents",
        "chat_template",
        "add_generation_prompt",
        "continue_final_message",
        "tokenize",
        "tokenizer",
        "tokenizer_kwargs",
        "padding",
        "truncation",
        "max_length",
        "return_tensors",
        "return_dict",
        "return_assistant_tokens_mask",
    }
)
"""What whoever renders a template gives it."""
SECRET = re.compile(r"api_?key|secret|passw|credential|authorization", re.IGNORECASE)


def unset(value: object) -> bool:
    """Left out of plan.yaml, digests and reports, which are then what they were without it."""
    return value is None


def _checked(value: dict[str, Any] | None) -> dict[str, Any] | None:
    try:
        exact_json(value, "a value")
    except ValueError:
        raise ValueError("allowed are values of JSON, without NaN and Infinity") from None
    return value or None


def _template_values(value: dict[str, Any] | None) -> dict[str, Any] | None:
    for name in value or {}:
        if not name.isidentifier():
            raise ValueError(f"{name!r} is no name that a template can use")
        if name in OF_THE_RENDERER:
            raise ValueError(f"{name} is given by whoever renders the template: leave it out")
    return _checked(value)


def _extra_body(value: dict[str, Any] | None) -> dict[str, Any] | None:
    for name in value or {}:
        if name in SET_BY_US:
            raise ValueError(
                f"{name} is set by the run or by another field of the plan: leave it out"
            )
        if name in NEVER_READ:
            raise ValueError(f"{name} makes answers of a form that is not read: leave it out")
        # Its value would stand in plan.yaml and in every report.
        if SECRET.search(name):
            raise ValueError(
                f"{name} holds a secret: put it into the environment variable that api_key_env "
                "names"
            )
    return _checked(value)


TemplateValues = Annotated[dict[str, JsonValue] | None, AfterValidator(_template_values)]
ExtraBody = Annotated[dict[str, JsonValue] | None, AfterValidator(_extra_body)]
