"""What runs in the engines' replicas: a served model, by vLLM or scripted.

`ServedModel` is Ray Serve's own LLM server, and more: the folder is verified before it is loaded,
adapters are loaded from folders when first asked for, what a model could not see or an engine would
die of is refused, and the exact distribution over given choices can be asked for, as the referee
needs it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

from ray.serve.llm import LLMConfig
from ray.serve.llm.deployment import LLMServer

from rldf_ray.apps.serve.compiling import MOST_S, Compiling
from rldf_ray.apps.serve.engine_asked import folded, schemas_of, scores_prompt, unseen
from rldf_ray.apps.serve.engines import (
    DIED,
    GONE,
    Adapter,
    EngineRequest,
    Kind,
    Piece,
    error_piece,
    is_error,
    piece_of,
)
from rldf_ray.apps.serve.output_forms import is_cheap
from rldf_ray.apps.serve.pacing import Pace
from rldf_ray.apps.serve.scripted import ScriptedEngine
from rldf_ray.apps.serve.store import verify
from rldf_ray.apps.serve.together import together
from rldf_ray.apps.serve.tokens import detokenized, tokenized
from rldf_ray.apps.serve.vllm_responses import responses
from rldf_ray.engines.choice_trie import ChoiceTrie
from rldf_ray.models.chat_template import ChatTemplate, ChatTemplateError, chat_template

WITH_ADAPTERS = (
    "this model's engine carries adapters, and such engines cannot score a prompt (echo with "
    "logprobs, prompt_logprobs): ask a model that has an engine without"
)
TOKENS = ("tokenize", "detokenize")

log = logging.getLogger("ray.serve")


class ServedModel(LLMServer):
    """One vLLM engine and its adapters."""

    async def __init__(  # type: ignore[misc]
        self,
        llm_config: LLMConfig,
        *,
        messages_per_s: float | None,
        idle_s: float,
        chat_template_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self._pace = Pace.of(messages_per_s, idle_s)
        self._values = chat_template_kwargs
        loading: Any = llm_config.model_loading_config
        self._folder = str(loading.model_source)
        await asyncio.to_thread(verify, Path(self._folder))
        self._loading = asyncio.Lock()
        self._adapters: set[str] = set()
        self._template: ChatTemplate | None = None
        self._compiling = Compiling(self._folder)
        await super().__init__(llm_config)

    async def generate(self, request: EngineRequest) -> AsyncGenerator[Piece, None]:
        """The answer as `serve.engines` describes it; errors are answers with an `error`."""
        if self._dead:
            yield error_piece("the engine has died", GONE)
            return
        try:
            async with aclosing(self._pieces(request)) as found:
                async for piece in found:
                    yield piece
        except ChatTemplateError as error:
            yield error_piece(str(error), 400)
        except Exception:
            log.exception("a request failed in the engine")
            yield error_piece("the engine failed", DIED if self._dead else 500)

    async def _pieces(self, request: EngineRequest) -> AsyncGenerator[Piece, None]:
        if request.adapter is not None:
            await self._load(request.adapter)
        template = None if request.kind == "completion" else await self._chat_template()
        if request.kind == "choose":
            yield await self._choose(request)
            return
        if template is not None and request.kind in TOKENS:
            yield await asyncio.to_thread(self._tokens, request, template)
            return
        async with aclosing(self._pace.keep(self._answer(request), request)) as found:
            async for piece in found:
                yield piece

    @property
    def _dead(self) -> bool:
        """Whether vLLM's engine has died; Serve sees it too, and starts another replica."""
        engine: Any = self.engine
        return bool(engine._engine_client.errored)

    async def running(self) -> int:
        """Requests that the engine is working on."""
        engine: Any = self.engine
        found: int = engine._engine_client.output_processor.get_num_unfinished_requests()
        return found

    async def pid(self) -> int:
        return os.getpid()

    async def _answer(self, request: EngineRequest) -> AsyncGenerator[Piece, None]:
        body = {**request.body, "model": self._name(request)}
        if scores_prompt(body) and self._llm_config.engine_kwargs.get("enable_lora"):
            # vLLM 0.32 dies of it on a CPU: the output head's adapters have a row for each request,
            # and none for the tokens of its prompt.
            yield error_piece(WITH_ADAPTERS, 400)
            return
        for schema in schemas_of(body):
            if not is_cheap(schema) and not await self._compiling.in_time(schema):
                yield error_piece(f"the schema takes over {MOST_S} s to compile: simplify it", 400)
                return
        if request.kind in ("chat", "responses"):
            template = await self._chat_template()
            if missing := unseen(body, template):
                yield error_piece(missing, 400)
                return
            if request.kind == "chat":
                body["messages"] = template.shown(body["messages"])
            elif template.folds_system:
                body = folded(body)
            if self._values:
                body["chat_template_kwargs"] = dict(self._values)
        try:
            stream = await self._begun(request.kind, body)
        except ValueError as error:
            yield error_piece(str(error), 400)
            return
        try:
            async for found in stream:
                piece = found if request.kind == "responses" else piece_of(found)
                lost = is_error(piece) and self._dead
                yield error_piece("the engine has died", DIED) if lost else piece
        finally:
            # Closed here and now, so that a cancelled request leaves the engine at once.
            await stream.aclose()

    async def _begun(self, kind: Kind, body: dict[str, Any]) -> Any:
        """The stream of Ray's LLM server, or of vLLM where Ray has none.

        Raises:
            ValueError: vLLM's request models say that the body is wrong.
        """
        from ray.serve.llm.openai_api_models import ChatCompletionRequest, CompletionRequest

        if kind == "responses":
            engine: Any = self.engine
            return responses(engine._app_state, body)
        if kind == "chat":
            return await self.chat(ChatCompletionRequest.model_validate(body))
        return await self.completions(CompletionRequest.model_validate(body))

    def _tokens(self, request: EngineRequest, template: ChatTemplate) -> dict[str, Any]:
        if request.kind == "detokenize":
            return detokenized(request.body, template)
        longest = int(self._llm_config.engine_kwargs["max_model_len"])
        return tokenized(request.body, template, longest)

    def _name(self, request: EngineRequest) -> str:
        return request.adapter.name if request.adapter is not None else self._llm_config.model_id

    async def _load(self, adapter: Adapter) -> None:
        if adapter.name in self._adapters:
            return
        async with self._loading:
            if adapter.name in self._adapters:
                return
            await asyncio.to_thread(verify, Path(adapter.folder))
            await self._resolve(adapter)
            self._adapters.add(adapter.name)

    async def _resolve(self, adapter: Adapter) -> None:
        from ray.llm._internal.serve.core.configs.llm_config import DiskMultiplexConfig

        assert self.engine is not None
        await self.engine.resolve_lora(
            DiskMultiplexConfig(
                model_id=adapter.name,
                max_total_tokens=None,
                local_path=adapter.folder,
                lora_assigned_int_id=len(self._adapters) + 1,
            )
        )

    async def _choose(self, request: EngineRequest) -> dict[str, Any]:
        """Said choice and probability of every choice, one token at a time."""
        template = await self._chat_template()
        prompt = template.answer_begins(request.body["messages"])
        encoded = {choice: template.answer_ids(choice) for choice in request.body["choices"]}
        trie = ChoiceTrie.of(encoded, template.closing[0])
        branches = trie.branches()
        found = await together(
            *(self._next(request, [*prompt, *prefix], ids) for prefix, ids in branches.items())
        )
        failed = next((piece for piece in found if "error" in piece), None)
        if failed is not None:
            return failed
        logprobs = {
            prefix: _logprobs(piece, ids)
            for (prefix, ids), piece in zip(branches.items(), found, strict=True)
        }
        used = [piece["usage"]["prompt_tokens"] for piece in found]
        return {
            "text": trie.said(logprobs),
            "probabilities": trie.probabilities(logprobs),
            "usage": {"prompt_tokens": sum(used), "completion_tokens": len(used)},
        }

    async def _next(
        self, request: EngineRequest, prompt: list[int], allowed: tuple[int, ...]
    ) -> dict[str, Any]:
        body = {
            "prompt": prompt,
            "max_tokens": 1,
            "temperature": 0.0,
            "logprobs": 0,
            "allowed_token_ids": list(allowed),
            "logprob_token_ids": list(allowed),
            "return_tokens_as_token_ids": True,
        }
        pieces = self._answer(EngineRequest("completion", body, request.adapter))
        try:
            first = await anext(pieces)
        finally:
            await pieces.aclose()
        assert isinstance(first, dict)
        return first

    async def _chat_template(self) -> ChatTemplate:
        if self._template is None:
            self._template = await asyncio.to_thread(chat_template, self._folder, self._values)
        return self._template


def _logprobs(piece: dict[str, Any], allowed: tuple[int, ...]) -> dict[int, float]:
    """Log-probability of each allowed next token, out of a completion's answer."""
    (top,) = piece["choices"][0]["logprobs"]["top_logprobs"]
    return {token: top[f"token_id:{token}"] for token in allowed}


class ScriptedServed:
    """A replica without a model."""

    def __init__(
        self,
        name: str,
        folder: str,
        *,
        delay_s: float,
        messages_per_s: float | None,
        idle_s: float,
    ) -> None:
        verify(Path(folder))
        self._pace = Pace.of(messages_per_s, idle_s)
        self._name = name
        self._engine = ScriptedEngine(delay_s)

    async def generate(self, request: EngineRequest) -> AsyncGenerator[Piece, None]:
        pieces = self._engine.answer(self._name, request)
        async with aclosing(self._pace.keep(pieces, request)) as found:
            async for piece in found:
                yield piece

    async def running(self) -> int:
        return self._engine.running

    async def pid(self) -> int:
        return os.getpid()
