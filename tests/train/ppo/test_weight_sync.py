"""After a weight sync an engine is the one those weights would have started; asleep it is smaller.

The in-place reload of a CPU engine silently keeps the packed copy of a tied output head
(`FolderTransfer`), so plausible text is no evidence; the same text as a fresh engine's is.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

QUESTIONS = (
    "Who usually forgets appointments, and why?",
    "Name three good reasons to plant a garden.",
    "What would you ask a new neighbour?",
)


def _requests() -> list:
    from rldf_ray.models.base import ChatRequest, Message

    return [
        ChatRequest(
            messages=(Message("user", question),), max_tokens=24, temperature=0.0, address=question
        )
        for question in QUESTIONS
    ]


async def _answers(pool) -> list[tuple[int, ...]]:  # type: ignore[no-untyped-def]
    answers = await asyncio.gather(*(pool.complete(request) for request in _requests()))
    return [completion.token_ids for (completion,) in answers]


@pytest.fixture
def changed_model(tmp_path: Path) -> Path:
    """The embedded model with visibly other weights, the tied output head among them."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from rldf_ray.models.embedded import embedded_model_folder

    model = AutoModelForCausalLM.from_pretrained(embedded_model_folder(), dtype=torch.float32)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.02 * parameter.std() * torch.randn_like(parameter))
        head = model.get_input_embeddings().weight
        head.mul_(1 + 0.2 * torch.randn(head.shape[0], 1))
    model.save_pretrained(tmp_path / "changed")
    AutoTokenizer.from_pretrained(embedded_model_folder()).save_pretrained(tmp_path / "changed")
    return tmp_path / "changed"


def _greedy_by_transformers(folder: Path) -> list[tuple[int, ...]]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from rldf_ray.models.chat_template import ChatTemplate

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    found = []
    for question in QUESTIONS:
        prompt = ChatTemplate(tokenizer).prompt_ids([{"role": "user", "content": question}])
        ids = model.generate(torch.tensor([prompt]), max_new_tokens=24, do_sample=False)
        found.append(tuple(ids[0, len(prompt) :].tolist()))
    return found


def test_synced_engine_equals_a_fresh_one_and_transformers(
    changed_model: Path, tmp_path: Path
) -> None:
    from transformers import AutoModelForCausalLM

    from rldf_ray.cluster.memory import tree_pss_gib
    from rldf_ray.cluster.ray_cluster import ray_cluster
    from rldf_ray.engines.pool import EnginePool, engines
    from rldf_ray.engines.vllm_actor import EngineSettings
    from rldf_ray.models.embedded import embedded_model_folder
    from rldf_ray.train.ppo.weight_sync import Policy, full_weights, shared_memory_sync

    def pool_of(folder: Path):  # type: ignore[no-untyped-def]
        settings = EngineSettings(
            model=str(folder), revision="start", dtype="float32", max_model_len=512, block_size=32
        )
        return engines(settings, name="t", count=1, num_cpus=1, num_gpus=0, timeout_s=1200)

    with ray_cluster(tmp_path / "logs"):
        with pool_of(changed_model) as fresh:
            fresh.wait_until_ready()
            expected = asyncio.run(_answers(fresh))
        pool: EnginePool
        with pool_of(embedded_model_folder()) as pool, shared_memory_sync(pool) as sync:
            pool.wait_until_ready()
            before = asyncio.run(_answers(pool))
            model = AutoModelForCausalLM.from_pretrained(changed_model)
            sync.sync(Policy(full_weights(model)), "changed")
            after = asyncio.run(_answers(pool))
            # And back, so that one lucky sync does not pass.
            base = AutoModelForCausalLM.from_pretrained(embedded_model_folder())
            sync.sync(Policy(full_weights(base)), "base")
            again = asyncio.run(_answers(pool))
            awake = tree_pss_gib()
            pool.sleep()
            asleep = tree_pss_gib()
            pool.wake()
            sync.sync(Policy(full_weights(base)), "base")
            after_sleep = asyncio.run(_answers(pool))
    assert before != expected
    assert after == expected
    assert again == before
    assert after_sleep == before
    # The KV cache is 1 GiB, the layers' weights in float32 are 0.4.
    assert awake - asleep > 1.2
    assert after == _greedy_by_transformers(changed_model)


@pytest.mark.parametrize("beside", [True, False], ids=["beside the base", "merged into it"])
def test_synced_adapter_equals_a_fresh_engine_on_the_merged_model(
    beside: bool, tmp_path: Path
) -> None:
    import torch
    from peft import get_peft_model, get_peft_model_state_dict
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from rldf_ray.cluster.ray_cluster import ray_cluster
    from rldf_ray.engines.pool import engines
    from rldf_ray.engines.vllm_actor import EngineSettings
    from rldf_ray.models.embedded import embedded_model_folder
    from rldf_ray.plan import LoraSection
    from rldf_ray.train.lora import lora_config
    from rldf_ray.train.ppo.weight_sync import Policy, shared_memory_sync

    def adapted(seed: int) -> Policy:
        """An adapter that visibly changes the model; the merged model is saved beside it."""
        torch.manual_seed(seed)
        base = AutoModelForCausalLM.from_pretrained(embedded_model_folder(), dtype=torch.float32)
        model = get_peft_model(base, lora_config(LoraSection(rank=4), 30, scores=False))
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "lora_B" in name:
                    parameter.normal_(std=0.02)
        weights = {n: t.clone() for n, t in get_peft_model_state_dict(model).items()}
        policy = Policy(weights, model.peft_config["default"])
        model.merge_and_unload().save_pretrained(tmp_path / f"merged-{seed}")
        tokenizer = AutoTokenizer.from_pretrained(embedded_model_folder())
        tokenizer.save_pretrained(tmp_path / f"merged-{seed}")
        return policy

    def pool_of(folder: Path, rank: int):  # type: ignore[no-untyped-def]
        settings = EngineSettings(
            model=str(folder),
            revision="start",
            dtype="float32",
            max_model_len=512,
            block_size=32,
            lora_rank=rank,
        )
        return engines(settings, name="t", count=1, num_cpus=1, num_gpus=0, timeout_s=1200)

    policies = {seed: adapted(seed) for seed in (1, 2)}
    with ray_cluster(tmp_path / "logs"):
        with pool_of(tmp_path / "merged-2", 0) as fresh:
            fresh.wait_until_ready()
            expected = asyncio.run(_answers(fresh))
        rank = 4 if beside else 0
        with pool_of(embedded_model_folder(), rank) as pool, shared_memory_sync(pool) as sync:
            pool.wait_until_ready()
            found = []
            for seed in (1, 2):
                sync.sync(policies[seed], f"ppo-{seed}")
                found.append(asyncio.run(_answers(pool)))
    assert found[0] != found[1]
    assert found[1] == expected
    assert found[0] == _greedy_by_transformers(tmp_path / "merged-1")


def test_an_engine_on_another_node_is_sent_the_weights(
    changed_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray's own cluster of several raylets on one machine, none with room for engine and worker."""
    from dataclasses import replace

    from ray.cluster_utils import Cluster
    from transformers import AutoModelForCausalLM

    from rldf_ray.cluster.nodes import for_ppo
    from rldf_ray.cluster.ray_cluster import ray_cluster
    from rldf_ray.cluster.shared_memory import PREFIX, places
    from rldf_ray.engines.pool import engines
    from rldf_ray.engines.vllm_actor import EngineSettings
    from rldf_ray.models.embedded import embedded_model_folder
    from rldf_ray.train.ppo.weight_sync import Policy, full_weights, shared_memory_sync
    from tests.train.tiny import CPU

    settings = EngineSettings(
        model=str(embedded_model_folder()),
        revision="start",
        dtype="float32",
        max_model_len=512,
        block_size=32,
        threads=2,
    )
    before = {folder for place in places() for folder in place.glob(f"{PREFIX}*")}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=1)
        monkeypatch.setenv("RAY_ADDRESS", cluster.address)
        with ray_cluster(tmp_path / "logs"):
            assert not for_ppo(replace(CPU, worker_cpus=0.5, engine_cpus=0.5)).engine_homes
            placement = for_ppo(CPU)
            assert len(placement.engine_homes) == 1
            with (
                engines(
                    settings,
                    name="t",
                    count=1,
                    num_cpus=1,
                    num_gpus=0,
                    pinned=[placement.engine_pinned(0)],
                    timeout_s=1200,
                ) as pool,
                shared_memory_sync(pool) as sync,
            ):
                pool.wait_until_ready()
                for folder in (embedded_model_folder(), changed_model):
                    model = AutoModelForCausalLM.from_pretrained(folder)
                    sync.sync(Policy(full_weights(model)), folder.name)
                answers = asyncio.run(_answers(pool))
    finally:
        cluster.shutdown()
    assert answers == _greedy_by_transformers(changed_model)
    assert {folder for place in places() for folder in place.glob(f"{PREFIX}*")} <= before
