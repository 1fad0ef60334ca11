"""vLLM's own answer to POST /v1/responses, for which Ray's LLM server has no method."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

from rldf_ray.apps.serve.engines import Piece, Stream, error_piece

BEGUN = ("response.created", "response.in_progress")


async def responses(state: Any, body: dict[str, Any]) -> Stream:
    """The answer to a body of OpenAI's fields: one whole, or its events as they come.

    Args:
        state: of vLLM's API server, as Ray's engine makes it.
    """
    from vllm.entrypoints.openai.responses.protocol import ResponsesRequest
    from vllm.entrypoints.serve.engine.protocol import ErrorResponse
    from vllm.exceptions import VLLMClientError

    serving, events = state.openai_serving_responses, []
    try:
        found = await serving.create_responses(ResponsesRequest.model_validate(body))
        if hasattr(found, "__aiter__"):
            # vLLM says that it has begun before it has.
            async for event in found:
                events.append(event)
                if event.type not in BEGUN:
                    break
    except (ValueError, VLLMClientError) as error:
        found = serving.create_error_response(error)
    if isinstance(found, ErrorResponse):
        yield error_piece(found.error.message, found.error.code)
    elif hasattr(found, "__aiter__"):
        async with aclosing(found) as rest:
            yield [_told(event) for event in events]
            async for event in rest:
                yield [_told(event)]
    else:
        whole: Piece = found.model_dump(mode="json", by_alias=True)
        yield whole


def _told(event: Any) -> str:
    """A server-sent event."""
    return f"event: {event.type}\ndata: {event.model_dump_json(by_alias=True)}\n\n"
