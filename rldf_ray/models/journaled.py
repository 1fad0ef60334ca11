"""A model whose finished calls survive a kill: asked again, it answers from the journal."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rldf_ray.models.base import ChatModel, ChatRequest, Completion, Usage
from rldf_ray.storage import Journal, digest


class JournaledModel:
    """`model`, remembering every call in `journal` under the request's address.

    A call is repeated only if the request under its address has changed. `usage` sums the tokens
    of all answers given, remembered ones included: it is what the results cost, over all starts.
    """

    def __init__(self, model: ChatModel, journal: Journal) -> None:
        self._model = model
        self._journal = journal
        self.reused = 0
        self.made = 0
        self.usage = Usage()

    @property
    def name(self) -> str:
        return self._model.name

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        request_digest = digest(self.name, asdict(request))
        entry = self._journal.get(request.address)
        if entry is not None and entry["request"] == request_digest:
            self.reused += 1
            return self._counted(tuple(_completion(sample) for sample in entry["samples"]))
        samples = await self._model.complete(request)
        self._journal.append(
            request.address,
            {"request": request_digest, "samples": [asdict(sample) for sample in samples]},
        )
        self.made += 1
        return self._counted(samples)

    def _counted(self, samples: tuple[Completion, ...]) -> tuple[Completion, ...]:
        self.usage = sum((sample.usage for sample in samples), self.usage)
        return samples


def _completion(saved: dict[str, Any]) -> Completion:
    lists = {name: tuple(saved[name]) for name in ("prompt_ids", "token_ids")}
    logprobs = saved["logprobs"]
    return Completion(
        **{
            **saved,
            **lists,
            "usage": Usage(**saved["usage"]),
            "logprobs": None if logprobs is None else tuple(logprobs),
        }
    )
