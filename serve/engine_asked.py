"""What a body asks of an engine beyond text: schemas to compile, places in the chat template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rldf_ray.models.chat_template import ASKED, ChatTemplate

PROBE = "a_function_that_asks_for_its_place"
TOOL = {
    "type": "function",
    "function": {"name": PROBE, "description": "", "parameters": {"type": "object"}},
}


def schemas_of(body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The JSON schemas that answering may compile: of the answer's form, and of tools."""
    tools = () if body.get("tool_choice") == "none" else body.get("tools") or ()
    forms = [
        (body.get("structured_outputs") or {}).get("json"),
        ((body.get("text") or {}).get("format") or {}).get("schema"),
        *((tool.get("function") or tool).get("parameters") for tool in tools),
    ]
    yield from (form for form in forms if form)


def scores_prompt(body: Mapping[str, Any]) -> bool:
    """Whether log-probabilities of the prompt's own tokens are asked for."""
    echoed = bool(body.get("echo")) and body.get("logprobs") is not None
    return echoed or body.get("prompt_logprobs") is not None


def unseen(body: Mapping[str, Any], template: ChatTemplate) -> str | None:
    """What of a body the model would never see, as its chat template has no place for it."""
    if body.get("tools") and PROBE not in _written(template, tools=[TOOL]):
        return "this model's chat template has no place for tools: it would not see them"
    effort = body.get("reasoning_effort") or (body.get("reasoning") or {}).get("effort")
    if effort and len({_written(template, reasoning_effort=e) for e in ("low", "high")}) == 1:
        return "this model's chat template knows no reasoning effort: leave it out"
    return None


def folded(body: Mapping[str, Any]) -> dict[str, Any]:
    """A body of /v1/responses whose instructions and system messages are in its first user's.

    For a template that has no place for them, as chats are folded (`ChatTemplate.shown`).
    """
    given = body["input"]
    items = (
        [{"type": "message", "role": "user", "content": given}] if isinstance(given, str) else given
    )
    system = [item for item in items if item.get("role") in ("system", "developer")]
    rest = [dict(item) for item in items if item not in system]
    said = filter(None, [body.get("instructions"), *(item["content"] for item in system)])
    first = next((item for item in rest if item.get("role") == "user"), None)
    if first is None:
        rest.insert(0, first := {"type": "message", "role": "user", "content": ""})
    first["content"] = "\n\n".join(filter(None, [*said, first["content"]]))
    return {**{k: v for k, v in body.items() if k != "instructions"}, "input": rest}


def _written(template: ChatTemplate, **given: Any) -> str:
    written: str = template.tokenizer.apply_chat_template(
        ASKED, tokenize=False, add_generation_prompt=True, **given
    )
    return written
