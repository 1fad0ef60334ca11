"""A served model behind the interface that protocols speak with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rldf_ray.apps.serve.caller import Caller
from rldf_ray.apps.serve.engines import EngineFailedError, EngineGoneError, EngineRefusedError
from rldf_ray.apps.serve.service import Service
from rldf_ray.models.base import ChatRequest, Completion, ModelError, Usage
from rldf_ray.models.thinking import split_thinking


@dataclass
class ServedChatModel:
    """A served model behind the interface that debaters and referees speak with."""

    service: Service
    caller: Caller
    model: str

    @property
    def name(self) -> str:
        return self.model

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        """Answer with the served engine.

        Raises:
            ModelError: the engine refused, is gone, or took too long.
        """
        messages = [{"role": m.role, "content": m.content} for m in request.messages]
        try:
            if request.choices is not None and request.choice_probabilities:
                return (await self._choose(request, messages),)
            body = {**_sampling(request), "messages": messages}
            target, found = await self.service.answer(self.caller, self.model, "chat", body)
        except (EngineRefusedError, EngineGoneError, EngineFailedError) as error:
            raise ModelError(f"model {self.model}: {error}") from error
        except TimeoutError as error:
            raise ModelError(f"model {self.model} gave no answer in time") from error
        return tuple(
            self._completion(found, i, target.version) for i in range(len(found["choices"]))
        )

    async def _choose(self, request: ChatRequest, messages: list[dict[str, str]]) -> Completion:
        body = {"messages": messages, "choices": list(request.choices or ())}
        target, found = await self.service.answer(self.caller, self.model, "choose", body)
        return Completion(
            text=found["text"],
            finish_reason="stop",
            usage=_usage(found),
            model=self.model,
            revision=target.version,
            choice_probabilities=found["probabilities"],
        )

    def _completion(self, found: dict[str, Any], i: int, version: str) -> Completion:
        choice = found["choices"][i]
        apart = choice["message"].get("reasoning_content") or choice["message"].get("reasoning")
        said = split_thinking(choice["message"]["content"] or "", apart=apart or "")
        return Completion(
            text=said.answer,
            thinking=said.thinking,
            finish_reason="stop" if choice["finish_reason"] == "stop" and said.ended else "length",
            usage=_usage(found) if i == 0 else Usage(),
            model=self.model,
            revision=version,
        )


def _sampling(request: ChatRequest) -> dict[str, Any]:
    body: dict[str, Any] = {
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "seed": request.seed,
        "n": request.n,
    }
    if request.choices is not None:
        body["structured_outputs"] = {"choice": list(request.choices)}
    elif request.json_schema is not None:
        body["structured_outputs"] = {"json": request.json_schema}
    return body


def _usage(found: dict[str, Any]) -> Usage:
    usage = found.get("usage") or {}
    return Usage(
        prompt=usage.get("prompt_tokens") or 0, generated=usage.get("completion_tokens") or 0
    )
