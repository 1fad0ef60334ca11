"""Engines that answer without a model, in OpenAI's words: for tests, and to try a setup."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from rldf_ray.apps.serve.engines import (
    EngineRequest,
    Engines,
    Piece,
    Stream,
    Target,
    error_piece,
    raise_if_error,
)
from rldf_ray.apps.serve.pacing import Pace
from rldf_ray.models.base import ChatRequest, Completion, Message, ModelError
from rldf_ray.models.scripted import ScriptedModel


@dataclass
class ScriptedEngine:
    """One engine; `running` are the requests it is answering now."""

    delay_s: float = 0.0
    running: int = 0
    cancelled: int = 0
    _model: ScriptedModel = field(default_factory=ScriptedModel)

    async def answer(self, model: str, request: EngineRequest) -> AsyncGenerator[Piece, None]:
        """The pieces of an answer, a word at a time, `delay_s` before each."""
        self.running += 1
        finished = False
        try:
            samples = await self._model.complete(_chat_request(request))
            head = _head(model, request)
            if request.kind not in ("chat", "completion", "choose") or request.body.get("tools"):
                yield error_piece("a scripted engine has no tokens, and calls no tools", 400)
            elif request.kind == "choose":
                chosen = samples[0]
                yield {"text": chosen.text, "probabilities": chosen.choice_probabilities}
            elif request.body.get("stream"):
                async for piece in self._streamed(head, request, samples):
                    yield piece
            else:
                await asyncio.sleep(self.delay_s * sum(len(s.text.split()) for s in samples))
                yield _whole(head, request, samples)
            finished = True
        except ModelError as error:
            yield {"error": {"message": str(error), "code": 400}}
        finally:
            self.running -= 1
            self.cancelled += not finished

    async def _streamed(
        self, head: dict[str, Any], request: EngineRequest, samples: tuple[Completion, ...]
    ) -> Stream:
        for i, sample in enumerate(samples):
            for j, word in enumerate(sample.text.split()):
                await asyncio.sleep(self.delay_s)
                yield [_event({**head, "choices": [_delta(request, i, word, j)]})]
            last = _delta(request, i, "", 1) | {"finish_reason": sample.finish_reason}
            yield [_event({**head, "choices": [last]})]
        yield [_event({**head, "choices": [], "usage": _usage(samples)}), "data: [DONE]\n\n"]


@dataclass
class ScriptedEngines(Engines):
    """Scripted engines in this process, one for each name asked for."""

    delay_s: float = 0.0
    engines: dict[str, ScriptedEngine] = field(default_factory=dict)
    pace: Pace = field(default_factory=lambda: Pace(50))

    async def generate(self, target: Target, request: EngineRequest) -> Stream:
        engine = self.engines.setdefault(target.engine, ScriptedEngine(self.delay_s))
        pieces = engine.answer(target.name, request)
        async with aclosing(self.pace.keep(pieces, request)) as found:
            async for piece in found:
                raise_if_error(piece)
                yield piece

    async def generating(self, names: Sequence[str]) -> list[int | None]:
        return [self.engines[name].running if name in self.engines else 0 for name in names]


def _chat_request(request: EngineRequest) -> ChatRequest:
    body = request.body
    form = body.get("structured_outputs", {})
    choices = body.get("choices") or form.get("choice")
    messages = body.get("messages") or [{"role": "user", "content": str(body.get("prompt"))}]
    return ChatRequest(
        messages=tuple(Message(m["role"], str(m["content"])) for m in messages),
        max_tokens=body.get("max_tokens", 64),
        seed=body.get("seed", 0),
        n=body.get("n", 1),
        choices=tuple(choices) if choices else None,
        choice_probabilities=request.kind == "choose",
        json_schema=form.get("json"),
        address=request.adapter.name if request.adapter is not None else "",
    )


def _head(model: str, request: EngineRequest) -> dict[str, Any]:
    chat = request.kind == "chat"
    kind = "chat.completion" if chat else "text_completion"
    return {
        "id": "chatcmpl-scripted" if chat else "cmpl-scripted",
        "object": f"{kind}.chunk" if chat and request.body.get("stream") else kind,
        "created": int(time.time()),
        "model": model,
    }


def _delta(request: EngineRequest, i: int, word: str, j: int) -> dict[str, Any]:
    text = word if j == 0 or not word else f" {word}"
    choice: dict[str, Any] = {"index": i, "finish_reason": None, "logprobs": None}
    if request.kind == "completion":
        return {**choice, "text": text}
    role = {"role": "assistant"} if j == 0 else {}
    return {**choice, "delta": {**role, "content": text}}


# As vLLM's answers have them: clients send them back with the message.
_NULLS = dict.fromkeys(
    ("refusal", "annotations", "audio", "function_call", "reasoning"),
)


def _whole(
    head: dict[str, Any], request: EngineRequest, samples: tuple[Completion, ...]
) -> dict[str, Any]:
    choices = [
        {
            "index": i,
            "finish_reason": sample.finish_reason,
            "logprobs": None,
            **(
                {"text": sample.text}
                if request.kind == "completion"
                else {"message": {"role": "assistant", "content": sample.text, **_NULLS}}
            ),
        }
        for i, sample in enumerate(samples)
    ]
    return {**head, "choices": choices, "usage": _usage(samples)}


def _usage(samples: tuple[Completion, ...]) -> dict[str, int]:
    prompt = sum(sample.usage.prompt for sample in samples)
    generated = sum(sample.usage.generated for sample in samples)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": generated,
        "total_tokens": prompt + generated,
    }


def _event(value: dict[str, Any]) -> str:
    return f"data: {json.dumps(value, separators=(',', ':'))}\n\n"
