"""A checked reply of an OpenAI-compatible server, as completions; what is missing stays missing."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from rldf_ray.models.base import ChatRequest, Completion, FinishReason, Usage
from rldf_ray.models.openai_checked import Choice, Message, Reply, ReportedUsage
from rldf_ray.models.thinking import Spoken, answer_begins, split_thinking

MOST_MISSED = 0.01
# English text has about four bytes of UTF-8 a token; a character of other scripts has up to four.
BYTES_A_TOKEN = 4
_FENCED = re.compile(r"\s*```\w*\s(.*?)\s*```\s*", re.DOTALL)
# How a sample ends that a content filter took, at Azure and OpenAI, and behind Google's names.
_FILTERED = re.compile(
    r"content[_ ]?filter|safety|prohibited|blocklist|recitation|spii", re.IGNORECASE
)


def completions_of(reply: Reply, request: ChatRequest, model: str) -> tuple[Completion, ...]:
    """The samples of a reply.

    The server reports the generated tokens of all samples together; they are shared out evenly. A
    sample that the server's content filter cut counts as "length"; one of which it left nothing
    has a `refusal`. Thinking is split off.
    """
    usages = _usages(reply, request)
    spoken = [_spoken(choice.message) for choice in reply.choices]
    return tuple(
        Completion(
            text=_text(said.answer, request),
            thinking=said.thinking,
            finish_reason=_finish_reason(choice.finish_reason) if said.ended else "length",
            usage=usage,
            model=model,
            revision=reply.system_fingerprint or reply.model or model,
            logprobs=_token_logprobs(choice) if request.logprobs else None,
            choice_probabilities=_choice_probabilities(choice, request, said),
            refusal=_refusal(choice, said),
        )
        for choice, usage, said in zip(reply.choices, usages, spoken, strict=True)
    )


def answer_text(message: Message) -> str:
    """The answer, or in what words the model refused one."""
    return message.content or message.refusal or ""


def _spoken(message: Message) -> Spoken:
    """Servers name what they have split off in two ways, and some split nothing off."""
    apart = message.reasoning_content or message.reasoning or ""
    return split_thinking(answer_text(message), apart=apart)


def _text(text: str, request: ChatRequest) -> str:
    """JSON that nothing enforced often comes in a Markdown fence."""
    fenced = _FENCED.fullmatch(text) if request.json_schema is not None else None
    return text if fenced is None else fenced[1]


def _refusal(choice: Choice, said: Spoken) -> str | None:
    if said.answer.strip() or not _FILTERED.search(choice.finish_reason or ""):
        return None
    return f"the content filter let no answer through (finish_reason {choice.finish_reason!r})"


def used_for(reply: Reply, request: ChatRequest) -> Usage:
    """The tokens of all samples of a reply."""
    return used_by(request, reply.usage, [_everything(c.message) for c in reply.choices])


def _usages(reply: Reply, request: ChatRequest) -> list[Usage]:
    used, n = used_for(reply, request), len(reply.choices)
    each, rest = divmod(used.generated, n)
    first = Usage(used.prompt, used.cached, 0, used.by_characters)
    return [(first if i == 0 else Usage()) + Usage(generated=each + (i < rest)) for i in range(n)]


def _everything(message: Message) -> str:
    return answer_text(message) + (message.reasoning_content or message.reasoning or "")


def used_by(request: ChatRequest, reported: ReportedUsage | None, texts: Sequence[str]) -> Usage:
    """Tokens of a request and its answers: the server's figures, or its characters in their place.

    Servers without figures often send zeros. A request of no tokens is none, so that those are
    counted too: a budget would never end otherwise.
    """
    reported = reported or ReportedUsage()
    prompt, generated = reported.prompt_tokens, reported.completion_tokens
    details = reported.prompt_tokens_details
    counted = Usage(
        prompt=0 if prompt else _tokens(message.content for message in request.messages),
        generated=0 if generated else _tokens(texts),
    )
    return Usage(
        prompt=prompt or counted.prompt,
        cached=min((details and details.cached_tokens) or 0, prompt or 0),
        generated=generated or counted.generated,
        by_characters=counted.total,
    )


def _tokens(texts: Iterable[str]) -> int:
    return sum(math.ceil(len(text.encode("utf-8")) / BYTES_A_TOKEN) for text in texts)


def _finish_reason(reason: str | None) -> FinishReason:
    return "stop" if reason == "stop" else "length"


def _token_logprobs(choice: Choice) -> tuple[float, ...] | None:
    return tuple(position.logprob for position in choice.positions) or None


def _choice_probabilities(
    choice: Choice, request: ChatRequest, said: Spoken
) -> dict[str, float] | None:
    positions = choice.positions
    if request.choices is None or not request.choice_probabilities or not positions:
        return None
    # What little a refusal leaves to the choices is no answer. The little that they have where
    # decoding was guided is one, so their probability alone does not tell.
    if not _begins_with_one(said.answer.strip(), request.choices):
        return None
    # Without a thought before it, the choice begins with the first token whatever was said.
    begin = answer_begins([p.token for p in positions], said) if said.thought else 0
    if begin is None:
        return None
    top = [(o.token, math.exp(o.logprob)) for o in positions[begin].top_logprobs or ()]
    return choice_distribution(top, request.choices)


def _begins_with_one(text: str, choices: Sequence[str]) -> bool:
    """Whether a text begins with a choice as a word: "B. The", but neither "Both" nor "b"."""
    return any(
        text.startswith(choice) and not text[len(choice) :][:1].isalnum() for choice in choices
    )


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
