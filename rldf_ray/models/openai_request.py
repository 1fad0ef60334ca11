"""How a `ChatRequest` is put to an OpenAI-compatible server, with or without a field."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from rldf_ray.models.base import ChatRequest
from rldf_ray.prompts import prompts_beside
from rldf_ray.storage.json_text import json_text

TOP_LOGPROBS = 20

render = prompts_beside(__file__)


def body_of(
    request: ChatRequest, model: str, elsewhere: bool, left_out: Collection[str] = ()
) -> dict[str, Any]:
    """The request's fields; `elsewhere` is a server named by `endpoint.base_url`.

    Guided decoding of `choices` is asked of such servers (vLLM's `structured_outputs`); at the
    package's default they are a plain request, and the caller looks at what comes back.

    Args:
        left_out: fields that the server does not take. A limit has two names, and one stands for
            the other; a schema stands in the prompt instead.
    """
    in_prompt = request.json_schema is not None and "response_format" in left_out
    body: dict[str, Any] = {
        "model": model,
        "messages": _with_schema(request) if in_prompt else _messages(request),
        _limit(elsewhere, left_out): request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "seed": request.seed,
        "n": request.n,
    }
    if request.json_schema is not None:
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": request.json_schema, "strict": True},
        }
    if request.choices is not None and elsewhere:
        body["structured_outputs"] = {"choice": list(request.choices)}
    if request.logprobs or _scores(request):
        body["logprobs"] = True
    if _scores(request) and "logprobs" not in left_out:
        body["top_logprobs"] = TOP_LOGPROBS
    return {name: value for name, value in body.items() if name not in left_out}


def _limit(elsewhere: bool, left_out: Collection[str]) -> str:
    # OpenAI's newer models refuse max_tokens; many other servers know nothing else.
    old, new = "max_tokens", "max_completion_tokens"
    if elsewhere:
        return new if old in left_out else old
    return old if new in left_out else new


def _scores(request: ChatRequest) -> bool:
    return request.choices is not None and request.choice_probabilities


def _messages(request: ChatRequest) -> list[dict[str, str]]:
    return [{"role": m.role, "content": m.content} for m in request.messages]


def _with_schema(request: ChatRequest) -> list[dict[str, str]]:
    *before, last = _messages(request)
    schema = json_text(request.json_schema)
    return [*before, {**last, "content": render("schema", asked=last["content"], schema=schema)}]
