"""How a `ChatRequest` is put to an OpenAI-compatible server."""

from __future__ import annotations

from typing import Any

from rldf_ray.models.base import ChatRequest

TOP_LOGPROBS = 20


def body_of(request: ChatRequest, model: str, elsewhere: bool) -> dict[str, Any]:
    """The request's fields; `elsewhere` is a server named by `endpoint.base_url`.

    Guided decoding of `choices` is asked of such servers (vLLM's `structured_outputs`); at the
    package's default they are a plain request, and the caller looks at what comes back.
    """
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": m.role, "content": m.content} for m in request.messages],
        # OpenAI's newer models refuse max_tokens; many other servers know nothing else.
        "max_tokens" if elsewhere else "max_completion_tokens": request.max_tokens,
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
        body["extra_body"] = {"structured_outputs": {"choice": list(request.choices)}}
    return body


def logprob_fields(request: ChatRequest) -> dict[str, Any]:
    """The further fields that ask for log-probabilities, which some servers refuse."""
    if request.choices is not None and request.choice_probabilities:
        return {"logprobs": True, "top_logprobs": TOP_LOGPROBS}
    return {"logprobs": True} if request.logprobs else {}
