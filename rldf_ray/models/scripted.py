"""A deterministic stand-in for a language model: no network, no weights, answers at once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from rldf_ray.models.base import ChatRequest, Completion, FinishReason, ModelError, Usage
from rldf_ray.storage.digest import digest
from rldf_ray.storage.json_text import json_text

REVISION = "1"

_FIRST: tuple[tuple[str, ...], ...] = (
    (
        "On the whole",
        "In my experience",
        "As far as I can tell",
        "Taken together",
        "At a closer look",
        "To be fair",
        "At first sight",
    ),
    (
        "careful listeners",
        "patient neighbours",
        "new colleagues",
        "curious students",
        "old friends",
        "busy teachers",
        "small teams",
        "honest critics",
        "quiet visitors",
        "young parents",
        "local shopkeepers",
    ),
    ("often notice", "rarely forget", "learn to value", "come to expect", "sometimes miss"),
    (
        "a fair hearing",
        "plain words",
        "the whole story",
        "a second opinion",
        "good evidence",
        "small kindnesses",
        "the other side",
        "a clear reason",
        "long traditions",
        "the exceptions",
        "an open question",
        "shared interests",
        "their own mistakes",
    ),
)
_SECOND = (
    "",
    "That settles little by itself.",
    "Numbers would tell us more.",
    "The rest is a matter of taste.",
    "I would not bet on it.",
    "Others see it differently.",
    "It depends on the place.",
    "Few would disagree.",
    "Time will show.",
)
# Prime and no divisor of the number of answers, so that steps from any answer meet all others.
_STEP = 7919
_TAG = re.compile(r"<(\w+)> and </\1>")


class ScriptedModel:
    """Answers by a hash of the request's seed, address and last message.

    Without a format, the answer is a sentence or two, cut at `max_tokens`, in each of the tags that
    the last message asks for as `<tag> and </tag>`; with `choices`, one of them and a distribution
    whose maximum it is; with `json_schema`, an instance of the schema.
    A token is a word; there are no token ids and no log-probabilities.

    Args:
        delay_s: how long each request takes, seconds.
        reply: says the answer instead, uncut, called for each sample with `n` = 1 and a seed of
            the sample's own. If it says none of the `choices`, there are no probabilities.
    """

    def __init__(
        self, delay_s: float = 0.0, reply: Callable[[ChatRequest], str] | None = None
    ) -> None:
        self._delay_s = delay_s
        self._reply = reply

    @property
    def name(self) -> str:
        return "scripted"

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        """Answer `request`.

        Raises:
            ModelError: `json_schema` uses more of JSON Schema than this model knows.
        """
        await asyncio.sleep(self._delay_s)
        return tuple(self._sample(request, i) for i in range(request.n))

    def _sample(self, request: ChatRequest, i: int) -> Completion:
        number = _number_of(request) + i * _STEP
        weights = _weights(request.choices or (), number)
        finish_reason: FinishReason = "stop"
        if self._reply is not None:
            text = self._reply(replace(request, n=1, seed=request.seed + i))
            weights = _with_maximum_at(text, weights)
        elif request.choices is not None:
            text = max(weights, key=lambda choice: weights[choice])
        elif request.json_schema is not None:
            text = json_text(instance(request.json_schema, number))
        else:
            asked = request.messages[-1].content
            text, finish_reason = _cut(_in_tags(asked, number), request.max_tokens)
        return Completion(
            text=text,
            finish_reason=finish_reason,
            usage=_usage(request, text, i),
            model=self.name,
            revision=REVISION,
            choice_probabilities=_normalised(weights) if request.choice_probabilities else None,
        )


def _in_tags(asked: str, number: int) -> str:
    """A sentence or two, in every tag that is asked for."""
    tags = dict.fromkeys(_TAG.findall(asked))
    if not tags:
        return sentences(number)
    return "\n".join(f"<{tag}>{sentences(_hash(number, tag))}</{tag}>" for tag in tags)


def sentences(number: int) -> str:
    """A sentence or two of plain English; equal numbers give equal text."""
    number, second = divmod(number, len(_SECOND))
    return f"{sentence(number)} {_SECOND[second]}".strip()


def sentence(number: int) -> str:
    """One sentence of 7 to 14 words and at most 80 characters."""
    parts = []
    for options in _FIRST:
        number, place = divmod(number, len(options))
        parts.append(options[place])
    opening, *rest = parts
    return f"{opening}, {' '.join(rest)}."


def instance(schema: dict[str, Any], number: int) -> object:
    """A small JSON value of `schema`, varied by `number`.

    Objects hold their required properties (all, if `required` is absent), arrays `minItems` items.

    Raises:
        ModelError: the schema needs a keyword that is not known here.
    """
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][number % len(schema["enum"])]
    match schema.get("type"):
        case "object" if set(schema.get("required", ())) <= set(schema.get("properties", {})):
            properties = schema.get("properties", {})
            return {
                name: instance(properties[name], _hash(number, name))
                for name in schema.get("required", properties)
            }
        case "array" if "items" in schema or not schema.get("minItems"):
            items = range(schema.get("minItems", 0))
            return [instance(schema["items"], number + i * _STEP) for i in items]
        case "string" if "pattern" not in schema and "format" not in schema:
            return _string(number, schema.get("minLength", 0), schema.get("maxLength"))
        case "integer" | "number":
            return schema.get("minimum", min(0, schema.get("maximum", 0)))
        case "boolean":
            return bool(number % 2)
        case "null":
            return None
    raise ModelError(
        f"the scripted model cannot make an instance of {json_text(schema)}: it knows const, "
        "enum, object (with properties for what is required), array (with items), string (without "
        "pattern and format), number, boolean and null; give it a `reply` of your own"
    )


def _string(number: int, shortest: int, longest: int | None) -> str:
    text = sentence(number)
    while len(text) < shortest:
        number += _STEP
        text = f"{text} {sentence(number)}"
    return text[:longest]


def _hash(*parts: object) -> int:
    return int(digest(*parts), 16)


def _number_of(request: ChatRequest) -> int:
    last = request.messages[-1].content if request.messages else ""
    return _hash(request.seed, request.address, last)


def _weights(choices: Sequence[str], number: int) -> dict[str, float]:
    # Cubed, so that one choice stands out as it does in a real model.
    return {choice: ((_hash(number, choice) + 1) / 2**64) ** 3 for choice in choices}


def _with_maximum_at(said: str, weights: dict[str, float]) -> dict[str, float]:
    return {**weights, said: 1.0 + max(weights.values())} if said in weights else {}


def _normalised(weights: dict[str, float]) -> dict[str, float] | None:
    total = sum(weights.values())
    return {choice: weight / total for choice, weight in weights.items()} or None


def _cut(text: str, max_tokens: int) -> tuple[str, FinishReason]:
    words = text.split()
    if len(words) <= max_tokens:
        return text, "stop"
    return " ".join(words[:max_tokens]), "length"


def _usage(request: ChatRequest, text: str, i: int) -> Usage:
    prompt = sum(len(message.content.split()) for message in request.messages) if i == 0 else 0
    return Usage(prompt=prompt, generated=len(text.split()))
