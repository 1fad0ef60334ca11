"""What engines are started with."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from rldf_ray.engines.vllm_actor import EngineSettings, engine_arguments
from rldf_ray.models.base import ChatRequest, Message


def test_prompts_are_prefilled_whole_on_a_cpu_alone() -> None:
    on_cpu = engine_arguments(EngineSettings(model="m", revision="r", max_model_len=4096))
    assert (on_cpu["enable_chunked_prefill"], on_cpu["max_num_batched_tokens"]) == (False, 4096)
    on_gpu = engine_arguments(EngineSettings(model="m", revision="r", kv_cache_gib=None))
    assert not {"enable_chunked_prefill", "max_num_batched_tokens"} & on_gpu.keys()


def test_log_probabilities_are_the_models_unless_the_sampled_ones_are_asked_for() -> None:
    own = engine_arguments(EngineSettings(model="m", revision="r"))
    sampled = engine_arguments(EngineSettings(model="m", revision="r", tempered_logprobs=True))
    assert own["logprobs_mode"] == "raw_logprobs"
    assert sampled["logprobs_mode"] == "processed_logprobs"


@pytest.mark.slow
def test_tempered_ones_are_the_trainers(tmp_path: Path) -> None:
    """With fresh weights no importance weight is off 1, at a temperature that is not."""
    import torch
    from transformers import AutoModelForCausalLM

    from rldf_ray.cluster.ray_cluster import ray_cluster
    from rldf_ray.engines.pool import engines
    from rldf_ray.models.embedded import embedded_model_folder
    from rldf_ray.train.ppo.losses import token_logprobs

    folder = embedded_model_folder()
    settings = EngineSettings(
        model=str(folder), revision="r", dtype="float32", max_model_len=512, block_size=32,
        tempered_logprobs=True,
    )  # fmt: skip
    request = ChatRequest(
        messages=(Message("user", "Name three good reasons to plant a garden."),),
        max_tokens=32, temperature=0.7, n=8, seed=3, logprobs=True,
    )  # fmt: skip
    with (
        ray_cluster(tmp_path / "logs"),
        engines(settings, name="t", count=1, num_cpus=1, num_gpus=0, timeout_s=1200) as pool,
    ):
        pool.wait_until_ready()
        samples = asyncio.run(pool.complete(request))
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    off = []
    for sample in samples:
        assert sample.logprobs is not None
        ids = torch.tensor([[*sample.prompt_ids, *sample.token_ids]])
        with torch.inference_mode():
            logits = model(ids).logits[:, len(sample.prompt_ids) - 1 : -1]
        own = token_logprobs(logits, ids[:, len(sample.prompt_ids) :], temperature=0.7)
        off += (own[0] - torch.tensor(sample.logprobs)).abs().tolist()
    assert len(off) > 100
    assert sum(off) / len(off) < 1e-3


@pytest.mark.slow
def test_guided_json_leaves_no_room_for_spaces(tmp_path: Path) -> None:
    """A small model went on with them until its last token, and half an object came out."""
    from rldf_ray.cluster.ray_cluster import ray_cluster
    from rldf_ray.engines.pool import engines
    from rldf_ray.models.embedded import embedded_model_folder

    percent = {"type": "integer", "minimum": 0, "maximum": 100}
    schema = {
        "type": "object",
        "properties": {
            "labels": {"type": "array", "items": {"enum": ["one", "two"]}, "maxItems": 2},
            "shares": {
                "type": "object",
                "properties": {"one": percent, "two": percent},
                "required": ["one", "two"],
            },
        },
        "required": ["labels", "shares"],
    }
    requests = [
        ChatRequest(
            messages=(Message("user", f"Fill in the form, number {number}."),),
            max_tokens=48,
            temperature=1.5,
            seed=number,
            json_schema=schema,
            address=str(number),
        )
        for number in range(16)
    ]

    async def replies(pool: Any) -> list[str]:
        answers = await asyncio.gather(*(pool.complete(request) for request in requests))
        return [answer.text for (answer,) in answers]

    settings = EngineSettings(
        model=str(embedded_model_folder()), revision="r", max_model_len=512, block_size=32
    )
    with (
        ray_cluster(tmp_path / "logs"),
        engines(settings, name="t", count=1, num_cpus=1, num_gpus=0, timeout_s=1200) as pool,
    ):
        pool.wait_until_ready()
        texts = asyncio.run(replies(pool))
    for text in texts:
        assert set(json.loads(text)) == {"labels", "shares"}
        assert "\n" not in text and "  " not in text
