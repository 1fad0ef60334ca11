"""An engine that writes down what reaches it, and the same requests given to bare vLLM at once.

The second is the ceiling of whatever made the requests: with the same settings and the prefix cache
on, in a process of its own, answers as long as they were. A guided answer is guided here as well
and ends where its grammar ends it: a grammar takes time at every token.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

import ray

from rldf_ray.engines.engine import Engine
from rldf_ray.engines.pool import EnginePool, seats_of
from rldf_ray.engines.seats import Seats
from rldf_ray.engines.vllm_actor import EngineSettings, VllmActor
from rldf_ray.models.embedded import resolve_model
from rldf_ray.plan import EnginesSection


class RecordedActor(VllmActor):
    """The product's engine, which also writes down every request that reached vLLM."""

    def __init__(self, settings: EngineSettings) -> None:
        super().__init__(settings)
        self._recorded: list[dict[str, Any]] = []

    async def _run(self, prompt: list[int], sampling: Any) -> Any:
        began = time.monotonic()
        output = await super()._run(prompt, sampling)
        self._recorded.append(
            {
                "prompt": list(prompt),
                "seconds": time.monotonic() - began,
                "cached": output.num_cached_tokens or 0,
                "generated": len(output.outputs[0].token_ids),
                "temperature": sampling.temperature,
                "top_p": sampling.top_p,
                "seed": sampling.seed,
                "allowed": sampling.allowed_token_ids,
                "max_tokens": sampling.max_tokens,
                "guide": guide_of(sampling),
            }
        )
        return output

    async def recorded(self) -> list[dict[str, Any]]:
        return self._recorded


def guide_of(sampling: Any) -> dict[str, Any] | None:
    """What an answer is held to, as the keywords of vLLM's `StructuredOutputsParams`."""
    guide = sampling.structured_outputs
    if guide is None:
        return None
    return {name: value for name in ("json", "choice") if (value := getattr(guide, name))}


def settings_of(model: str, section: EnginesSection) -> EngineSettings:
    """One engine on all cores."""
    return EngineSettings(
        model=resolve_model(model),
        revision="base",
        dtype=section.dtype,
        max_model_len=section.max_model_len,
        max_num_seqs=section.max_num_seqs,
        kv_cache_gib=section.kv_cache_gib,
        block_size=section.block_size,
        enforce_eager=section.enforce_eager,
        threads=len(os.sched_getaffinity(0)),
    )


@contextmanager
def recorded_engine(settings: EngineSettings) -> Iterator[tuple[EnginePool, Engine]]:
    made: Any = ray.remote(RecordedActor).options(num_cpus=1, max_concurrency=1000)
    engine = Engine(
        name="the engine", start=lambda: made.remote(settings), restarts=0, timeout_s=600
    )
    engine.begin()
    try:
        engine.wait_until_ready()
        yield EnginePool([engine], settings.model, Seats(1, seats_of(settings))), engine
    finally:
        engine.end()


def figures(recorded: Sequence[dict[str, Any]], seconds: float) -> dict[str, float]:
    prompt = sum(len(request["prompt"]) for request in recorded)
    generated = sum(request["generated"] for request in recorded)
    return {
        "seconds": seconds,
        "requests": len(recorded),
        "prompt_tokens": prompt,
        "prefilled_tokens": prompt - sum(request["cached"] for request in recorded),
        "generated_tokens": generated,
        "generated_tokens_a_second": generated / seconds,
    }


def prefix_tree_tokens(prompts: Sequence[Sequence[int]]) -> int:
    """Nodes of the prefix tree: every prompt less what it shares with its sorted neighbour."""
    ordered = sorted(map(tuple, prompts))
    shared = sum(
        sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))
        for a, b in pairwise(ordered)
    )
    return sum(map(len, ordered)) - shared


def replayed(settings: EngineSettings, recorded: list[dict[str, Any]]) -> dict[str, float]:
    """The ceiling, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder) / "asked.json", Path(folder) / "answered.json"
        asked.write_text(
            json.dumps({"settings": asdict(settings), "requests": recorded}), encoding="utf-8"
        )
        command = [sys.executable, "-m", "benchmarks.recorded", str(asked)]
        subprocess.run([*command, str(answered)], check=True)
        found: dict[str, float] = json.loads(answered.read_text(encoding="utf-8"))
    return found


def replay(asked: Path, answered: Path) -> None:
    """Give bare vLLM all requests at once."""
    from rldf_ray.engines.vllm_actor import compact_guides, engine_arguments, set_environment

    task = json.loads(asked.read_text(encoding="utf-8"))
    settings = EngineSettings(**task["settings"])
    # Its core in a process of its own, as behind the product's actor.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "1"
    set_environment(settings)
    from vllm import LLM

    engine = LLM(**engine_arguments(settings), structured_outputs_config=compact_guides())
    prompts: Any = [{"prompt_token_ids": request["prompt"]} for request in task["requests"]]
    sampling = [sampling_of(request) for request in task["requests"]]
    began = time.monotonic()
    outputs = engine.generate(prompts, sampling, use_tqdm=False)
    seconds = time.monotonic() - began
    rows = [
        {
            "prompt": request["prompt"],
            "cached": output.num_cached_tokens or 0,
            "generated": len(output.outputs[0].token_ids),
        }
        for request, output in zip(task["requests"], outputs, strict=True)
    ]
    answered.write_text(json.dumps(figures(rows, seconds)), encoding="utf-8")


def sampling_of(request: dict[str, Any]) -> Any:
    """vLLM's sampling of one recorded request."""
    from vllm.sampling_params import SamplingParams, StructuredOutputsParams

    same: dict[str, Any] = {
        "temperature": request["temperature"],
        "top_p": request["top_p"],
        "seed": request["seed"],
    }
    if request["guide"]:
        guide = StructuredOutputsParams(**request["guide"])
        return SamplingParams(**same, max_tokens=request["max_tokens"], structured_outputs=guide)
    return SamplingParams(
        **same,
        allowed_token_ids=request["allowed"],
        logprob_token_ids=request["allowed"],
        min_tokens=request["generated"],
        max_tokens=request["generated"],
        ignore_eos=True,
    )


if __name__ == "__main__":
    replay(*map(Path, sys.argv[1:]))
