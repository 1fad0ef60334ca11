"""A vLLM engine inside a Ray actor."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from rldf_ray.engines.choice_trie import ChoiceTrie
from rldf_ray.engines.sent import Received, Sent, this_node
from rldf_ray.engines.transport import RequestServer
from rldf_ray.engines.vllm_arguments import FOLDER_TRANSFER, vllm_arguments, vllm_environment
from rldf_ray.models.base import (
    ChatRequest,
    Completion,
    EngineDiedError,
    FinishReason,
    ModelError,
    PromptTooLongError,
    Usage,
)
from rldf_ray.models.chat_template import ChatTemplate
from rldf_ray.models.embedded import resolve_model
from rldf_ray.models.thinking import Spoken
from rldf_ray.plan.saved import another_run
from rldf_ray.storage.mirror import local_folder
from rldf_ray.storage.plain_path import plain_path


@dataclass(frozen=True, kw_only=True)
class EngineSettings:
    """What one engine needs to start.

    Attributes:
        model: Hugging Face folder or hub id, or what `resolve_model` makes one of where the
            engine runs.
        weights: where the model is, if workers do not find it by `model`.
        revision: recorded with everything this engine says until weights are synced into it.
        dtype: "bfloat16", "float16" or "float32".
        max_model_len: prompt plus answer, tokens.
        max_num_seqs: requests decoded together.
        kv_cache_gib: memory for the KV cache on CPU, GiB; None lets vLLM take its share of a GPU.
        gpu_memory_utilization: share of a GPU's memory for weights and KV cache.
        tensor_parallel: GPUs the model is split over.
        block_size: tokens in a KV block; prefixes are shared in whole blocks.
        enforce_eager: skip compilation (starts in a third of the time, decodes a little slower).
        threads: of the engine's process on a CPU; None lets Ray say, by what it reserves.
        lora_rank: highest rank of adapters that will be synced; 0 for none.
        sleeps: whether it will be asked to `sleep`.
        tempered_logprobs: log-probabilities are those of the distribution that is sampled from;
            else of the model's own, at temperature 1, which vLLM reports by default.
        chat_template_kwargs: given to the chat template with every chat.
    """

    model: str
    revision: str
    weights: str | None = None
    dtype: str = "bfloat16"
    max_model_len: int = 2048
    max_num_seqs: int = 64
    kv_cache_gib: float | None = 1.0
    gpu_memory_utilization: float = 0.85
    tensor_parallel: int = 1
    block_size: int | None = None
    enforce_eager: bool = True
    threads: int | None = None
    seed: int = 0
    lora_rank: int = 0
    sleeps: bool = False
    tempered_logprobs: bool = False
    chat_template_kwargs: Mapping[str, Any] | None = None

    @property
    def on_gpu(self) -> bool:
        return self.kv_cache_gib is None


class VllmActor:
    """Answers chat requests with a vLLM engine; made a Ray actor by `pool.py`."""

    def __init__(self, settings: EngineSettings) -> None:
        set_environment(settings)
        from transformers import AutoTokenizer
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        self._server = RequestServer(self.complete)
        self._settings = settings
        self._revision = settings.revision
        self._request_ids = count()
        here = replace(settings, model=resolve_model(settings.weights or settings.model))
        self._template = ChatTemplate(
            AutoTokenizer.from_pretrained(here.model), settings.model, settings.chat_template_kwargs
        )
        self._adapter: Any = None
        self._received = Received()
        self._tries: dict[tuple[str, ...], ChoiceTrie] = {}
        self._engine = AsyncLLM.from_engine_args(
            AsyncEngineArgs(**engine_arguments(here), structured_outputs_config=compact_guides())
        )

    async def ready(self) -> str:
        """The revision this engine answers with; returns once the engine is up."""
        await self._engine.check_health()
        return self._revision

    async def listen(self, secret: bytes) -> tuple[str, int]:
        """Host and port at which `complete` can be asked by those who know `secret`."""
        return await self._server.open(secret)

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        prompt = self._prompt_ids(request)
        if request.choices is not None and request.choice_probabilities:
            return (await self._choose(request, prompt),)
        return await self._generate(request, prompt)

    async def node(self) -> str:
        """Ray's id of the node that this engine is on."""
        return this_node()

    async def sync_weights(self, folder: str, revision: str, sent: Sent | None = None) -> None:
        """Load the weights in `folder` in place; everything said from now on is `revision`'s.

        Args:
            sent: what is in `folder`, where not every node has it.
        """
        await self._load(await self._here(folder, sent), adapter=False)
        self._revision = revision

    async def sync_adapter(self, folder: str, revision: str, sent: Sent | None = None) -> None:
        """Answer with the LoRA adapter in `folder` from now on, in place of any earlier one.

        An engine without room for adapters (`lora_rank` 0) merges it into the weights it was
        started with.
        """
        from vllm.lora.request import LoRARequest

        here = await self._here(folder, sent)
        if not self._settings.lora_rank:
            await self._load(here, adapter=True)
            self._revision = revision
            return
        last = self._adapter
        # vLLM tells adapters, and what it cached under them, apart by name and number.
        number = 1 if last is None else last.lora_int_id + 1
        adapter = LoRARequest(f"{number}-{revision}", number, str(here))
        if last is not None:
            await self._engine.remove_lora(last.lora_int_id)
        await self._engine.add_lora(adapter)
        self._adapter, self._revision = adapter, revision

    async def _load(self, folder: str | Path, *, adapter: bool) -> None:
        from vllm.distributed.weight_transfer.base import WeightTransferUpdateRequest

        weights = {"folder": plain_path(folder), "adapter": adapter}
        await self._engine.start_weight_update()
        await self._engine.update_weights(WeightTransferUpdateRequest(weights))
        await self._engine.finish_weight_update()
        await self._engine.reset_prefix_cache()

    async def _here(self, folder: str, sent: Sent | None) -> str | Path:
        if sent is None or sent.node == this_node():
            return local_folder(folder)
        return self._received.folder(await sent.files[0])

    async def sleep(self) -> None:
        """Give memory back until `wake`: that of KV cache and weights. No request may be under way.

        Weights of a GPU wait in the host's memory; on a CPU they are dropped, and new ones have to
        be loaded after `wake`.
        """
        if self._settings.on_gpu:
            await self._engine.sleep(level=1)
            return
        # What is cached would be read as zeros.
        if not await self._engine.reset_prefix_cache():
            raise ModelError(f"model {self._settings.model}: asked to sleep while it answers")
        await self._engine.collective_rpc("release_cache")
        await self._engine.collective_rpc("release_weights")

    async def wake(self) -> None:
        """Answer again; one that is awake, as it was started anew meanwhile, stays so."""
        if self._settings.on_gpu and await self._engine.is_sleeping():
            await self._engine.wake_up()

    def close(self) -> None:
        self._engine.shutdown()
        self._received.close()

    def _prompt_ids(self, request: ChatRequest) -> list[int]:
        messages = [{"role": m.role, "content": m.content} for m in request.messages]
        # A guide speaks of the answer, before which a reasoning model would think.
        guided = request.choices is not None or request.json_schema is not None
        ids = (self._template.answer_begins if guided else self._template.prompt_ids)(messages)
        room = self._settings.max_model_len - len(ids)
        if room < request.max_tokens:
            raise PromptTooLongError(
                f"model {self._settings.model}: a prompt of {len(ids)} tokens and an answer of "
                f"{request.max_tokens} do not fit engines.max_model_len="
                f"{self._settings.max_model_len}; "
                + another_run("a larger one, or with fewer rounds or shorter statements")
            )
        return ids

    async def _generate(self, request: ChatRequest, prompt: list[int]) -> tuple[Completion, ...]:
        from vllm.sampling_params import SamplingParams, StructuredOutputsParams

        guide = None
        if request.choices is not None:
            guide = StructuredOutputsParams(choice=list(request.choices))
        elif request.json_schema is not None:
            guide = StructuredOutputsParams(json=request.json_schema)
        output = await self._run(
            prompt,
            SamplingParams(
                n=request.n,
                max_tokens=request.max_tokens,
                temperature=request.temperature,
                top_p=request.top_p,
                seed=request.seed,
                logprobs=0 if request.logprobs else None,
                structured_outputs=guide,
            ),
        )
        spoken = [self._spoken(sample, guided=guide is not None) for sample in output.outputs]
        return tuple(
            Completion(
                text=said.answer,
                thinking=said.thinking,
                finish_reason=_finish_reason(sample.finish_reason) if said.ended else "length",
                usage=Usage(
                    prompt=len(prompt) if i == 0 else 0,
                    cached=(output.num_cached_tokens or 0) if i == 0 else 0,
                    generated=len(sample.token_ids),
                ),
                model=self._settings.model,
                revision=self._revision,
                prompt_ids=tuple(prompt),
                token_ids=tuple(sample.token_ids),
                logprobs=_token_logprobs(sample) if request.logprobs else None,
            )
            for i, (sample, said) in enumerate(zip(output.outputs, spoken, strict=True))
        )

    def _spoken(self, sample: Any, *, guided: bool) -> Spoken:
        if guided:
            return Spoken("", sample.text, ended=True, thought=False)
        return self._template.spoken(sample.token_ids, sample.text)

    async def _choose(self, request: ChatRequest, prompt: list[int]) -> Completion:
        """Said choice and exact probability of every choice, one token at a time."""
        assert request.choices is not None
        trie = self._trie(request.choices)
        branches = trie.branches()
        answers = await asyncio.gather(
            *(self._next_logprobs(prompt, prefix, ids) for prefix, ids in branches.items())
        )
        logprobs = {
            prefix: distribution
            for prefix, (distribution, _) in zip(branches, answers, strict=True)
        }
        usage = Usage()
        for _, used in answers:
            usage = usage + used
        return Completion(
            text=trie.said(logprobs),
            finish_reason="stop",
            usage=usage,
            model=self._settings.model,
            revision=self._revision,
            choice_probabilities=trie.probabilities(logprobs),
        )

    async def _next_logprobs(
        self, prompt: list[int], prefix: tuple[int, ...], allowed: tuple[int, ...]
    ) -> tuple[dict[int, float], Usage]:
        from vllm.sampling_params import SamplingParams

        output = await self._run(
            [*prompt, *prefix],
            SamplingParams(
                max_tokens=1,
                temperature=0.0,
                allowed_token_ids=list(allowed),
                logprob_token_ids=list(allowed),
            ),
        )
        (position,) = output.outputs[0].logprobs
        used = Usage(
            prompt=len(prompt) + len(prefix), cached=output.num_cached_tokens or 0, generated=1
        )
        return {token: position[token].logprob for token in allowed}, used

    def _trie(self, choices: tuple[str, ...]) -> ChoiceTrie:
        if choices not in self._tries:
            encoded = {choice: self._template.answer_ids(choice) for choice in choices}
            self._tries[choices] = ChoiceTrie.of(encoded, self._template.closing[0])
        return self._tries[choices]

    async def _run(self, prompt: list[int], sampling: Any) -> Any:
        from vllm.sampling_params import RequestOutputKind
        from vllm.v1.engine.exceptions import EngineDeadError

        # Only the end of an answer is read: its pieces would wake this process at every token.
        sampling.output_kind = RequestOutputKind.FINAL_ONLY
        final: Any = None
        try:
            async for output in self._engine.generate(
                {"prompt_token_ids": prompt},
                sampling,
                request_id=str(next(self._request_ids)),
                lora_request=self._adapter,
            ):
                final = output
        except EngineDeadError as error:
            # The actor is alive, the process of the engine's core is not.
            raise EngineDiedError(f"the vLLM engine's core ended: {error}") from error
        return final


def set_environment(settings: EngineSettings) -> None:
    """Set what vLLM reads from the environment, before it is imported."""
    for name, value in vllm_environment(enforce_eager=settings.enforce_eager).items():
        os.environ.setdefault(name, value)
    # By default vLLM on a CPU gives a lone worker a process of its own. Without it an engine takes
    # 0.45 GiB less and starts 5 s sooner, at the same speed.
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    if settings.threads is not None:
        # Ray has set it to the CPUs it reserved, which is less than there are to take turns on.
        os.environ["OMP_NUM_THREADS"] = str(settings.threads)


def engine_arguments(settings: EngineSettings) -> dict[str, Any]:
    """vLLM's engine arguments for `settings`."""
    options: dict[str, Any] = {}
    if settings.block_size is not None:
        options["block_size"] = settings.block_size
    return {
        **vllm_arguments(
            dtype=settings.dtype,
            max_model_len=settings.max_model_len,
            max_num_seqs=settings.max_num_seqs,
            enforce_eager=settings.enforce_eager,
            kv_cache_gib=settings.kv_cache_gib,
            gpu_memory_utilization=settings.gpu_memory_utilization,
            lora_rank=_lora_room(settings.lora_rank) if settings.lora_rank else 0,
        ),
        "model": settings.model,
        "tensor_parallel_size": settings.tensor_parallel,
        "distributed_executor_backend": "uni" if settings.tensor_parallel == 1 else None,
        "worker_extension_cls": "rldf_ray.engines.vllm_worker.WorkerExtension",
        "weight_transfer_config": {"backend": FOLDER_TRANSFER},
        "enable_sleep_mode": settings.sleeps and settings.on_gpu,
        "seed": settings.seed,
        "logprobs_mode": "processed_logprobs" if settings.tempered_logprobs else "raw_logprobs",
        **options,
    }


def compact_guides() -> Any:
    """vLLM's `StructuredOutputsConfig`: guided JSON has no space between two fields.

    Left to itself a small model goes on with spaces there until its last token.
    """
    from vllm.config import StructuredOutputsConfig

    return StructuredOutputsConfig(backend="xgrammar", disable_any_whitespace=True)


def _lora_room(rank: int) -> int:
    """The smallest rank vLLM has buffers for that holds `rank`."""
    return next(room for room in (8, 16, 32, 64, 128, 256, 320, 512) if room >= rank)


def _finish_reason(reason: str | None) -> FinishReason:
    return "stop" if reason == "stop" else "length"


def _token_logprobs(sample: Any) -> tuple[float, ...]:
    return tuple(
        position[token].logprob
        for token, position in zip(sample.token_ids, sample.logprobs, strict=True)
    )
