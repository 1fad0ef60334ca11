"""What an OpenAI-compatible server answered, as completions; what is missing stays missing."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from openai.types.chat import ChatCompletion

from rldf_ray.models.base import ChatRequest, Completion, FinishReason, Usage

MOST_MISSED = 0.01
_FENCED = re.compile(r"\s*```\w*\s(.*?)\s*```\s*", re.DOTALL)


def completions_of(
    reply: ChatCompletion, request: ChatRequest, model: str
) -> tuple[Completion, ...]:
    """The samples of a reply that `is_chat_completion`.

    The server tells the generated tokens of all samples together; they are shared out evenly. A
    sample cut by the server's content filter counts as "length".
    """
    usages = _usages(reply, len(reply.choices))
    return tuple(
        Completion(
            text=_text(choice.message.content or choice.message.refusal or "", request),
            finish_reason=_finish_reason(choice.finish_reason),
            usage=usage,
            model=model,
            revision=reply.system_fingerprint or reply.model or model,
            logprobs=_token_logprobs(choice) if request.logprobs else None,
            choice_probabilities=_choice_probabilities(choice, request),
        )
        for choice, usage in zip(reply.choices, usages, strict=True)
    )


def _text(text: str, request: ChatRequest) -> str:
    """JSON that nothing enforced often comes in a Markdown fence."""
    fenced = _FENCED.fullmatch(text) if request.json_schema is not None else None
    return text if fenced is None else fenced[1]


def is_chat_completion(reply: Any) -> bool:
    """The package takes any JSON for what was asked; what is missing is None or not there."""
    return (
        isinstance(reply, ChatCompletion)
        and bool(reply.choices)
        and all(getattr(choice, "message", None) is not None for choice in reply.choices)
    )


def _usages(reply: ChatCompletion, n: int) -> list[Usage]:
    usage = reply.usage
    if usage is None:
        return [Usage()] * n
    details = usage.prompt_tokens_details
    cached = (details.cached_tokens or 0) if details is not None else 0
    each, rest = divmod(usage.completion_tokens or 0, n)
    first = Usage(prompt=usage.prompt_tokens or 0, cached=cached)
    return [(first if i == 0 else Usage()) + Usage(generated=each + (i < rest)) for i in range(n)]


def _finish_reason(reason: str | None) -> FinishReason:
    return "stop" if reason == "stop" else "length"


def _positions(choice: Any) -> Sequence[Any]:
    logprobs = choice.logprobs
    return (logprobs.content or ()) if logprobs is not None else ()


def _token_logprobs(choice: Any) -> tuple[float, ...] | None:
    return tuple(position.logprob for position in _positions(choice)) or None


def _choice_probabilities(choice: Any, request: ChatRequest) -> dict[str, float] | None:
    positions = _positions(choice)
    if request.choices is None or not request.choice_probabilities or not positions:
        return None
    top = [(option.token, math.exp(option.logprob)) for option in positions[0].top_logprobs or ()]
    return choice_distribution(top, request.choices)


def choice_distribution(
    top: Sequence[tuple[str, float]], choices: Sequence[str]
) -> dict[str, float] | None:
    """Probability of every choice, from the likeliest first tokens of an answer.

    Choices that are a token of `top` (but for spaces) share the probability of those tokens. The
    others get 0, provided that they cannot hold more than 1% together: neither in what `top`
    leaves out nor behind a token that begins one of them ("1" may go on to "10").

    Args:
        top: text and probability of the first token's likeliest values.

    Returns:
        A distribution that sums to 1, or None where `top` cannot tell.
    """
    tokens = [(text.strip(), probability) for text, probability in top]
    probabilities = {
        choice: sum(probability for text, probability in tokens if text == choice)
        for choice in choices
    }
    held = sum(probabilities.values())
    seen = {text for text, _ in tokens}
    missing = [choice for choice in choices if choice not in seen]
    missed = 0.0
    if missing:
        missed = max(0.0, 1 - sum(probability for _, probability in tokens)) + sum(
            probability
            for text, probability in tokens
            if any(choice.startswith(text) for choice in missing)
        )
    if held <= 0 or missed > MOST_MISSED * (held + missed):
        return None
    return {choice: probability / held for choice, probability in probabilities.items()}
