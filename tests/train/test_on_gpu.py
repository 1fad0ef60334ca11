"""SFT, reward model and PPO on CUDA with a vLLM engine: one GPU shared by engine and trainer."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rldf_ray.cluster.placement import Placement
from rldf_ray.console import Progress
from rldf_ray.dataset.preference_data import prompts_table
from rldf_ray.engines.speakers import Speakers
from rldf_ray.plan import Plan
from rldf_ray.records import TOPIC_SCHEMA, table_of
from rldf_ray.stages.ppo import ppo
from rldf_ray.stages.reward import reward
from rldf_ray.stages.run import Run
from rldf_ray.stages.sft import sft
from rldf_ray.storage.results import if_recorded, recorded
from rldf_ray.storage.run_folder import RunFolder
from tests.fakes import judgement, plan_with
from tests.train.tiny import WORDS

pytestmark = [pytest.mark.gpu, pytest.mark.slow]
HALF = Placement(
    device="cuda",
    engines=1,
    engine_cpus=1,
    engine_gpus=0.5,
    workers=1,
    worker_cpus=1,
    worker_gpus=0.5,
    threads=1,
)


@pytest.fixture(autouse=True)
def gpu() -> None:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")


def write_data(folder: RunFolder) -> None:
    """Sentences of two vocabularies, the first of which is preferred."""
    draw = random.Random(0)

    def says(role: str, words: tuple[str, ...]) -> list[dict[str, str]]:
        return [{"role": role, "content": " ".join(draw.choices(words, k=12))}]

    good, bad = ("calm", "fair", "kind", "each"), ("angry", "never", "worst", "those")
    example = {"prompt": says("user", WORDS), "completion": says("assistant", good)}
    sft = [{"topic_id": f"t{i}", **example} for i in range(16)]
    pairs = [
        {
            "topic_id": f"t{i}",
            "prompt": says("user", WORDS),
            "chosen": says("assistant", good),
            "rejected": says("assistant", bad),
        }
        for i in range(16)
    ]
    for name, rows in {"sft": sft, "pairs": pairs}.items():
        pq.write_table(pa.Table.from_pylist(rows), folder.path(f"data/{name}.parquet"))
    scenes = [judgement(number, split="ppo") for number in range(4)]
    folder.write_table("data/topics.parquet", table_of(scenes, TOPIC_SCHEMA))
    folder.write_table("data/prompts.parquet", prompts_table(scenes))


def gpu_plan(dtype: str, rank: int) -> Plan:
    return plan_with(
        "sft={batch_size: 4, micro_batch: 4, max_length: 128}",
        "reward={batch_size: 4, micro_batch: 4, max_length: 128, held_out_share: 0.2}",
        "ppo={episodes: 8, rollout_batch: 4, batch_size: 4, micro_batch: 4, max_tokens: 24, "
        f"dtype: {dtype}, held_out_prompts: 2}}",
        f"train={{workers: 1, zero_stage: 2, dtype: bfloat16, lora: {{rank: {rank}}}}}",
        "engines={max_model_len: 512, gpu_memory_utilization: 0.3, enforce_eager: true}",
    )


@pytest.mark.parametrize(
    ("dtype", "rank"), [("float32", 0), ("bfloat16", 0), ("float32", 16)], ids=str
)
def test_all_three_trainers_run_on_cuda(tmp_path: Path, dtype: str, rank: int) -> None:
    from rldf_ray.cluster.ray_cluster import ray_cluster

    folder = RunFolder(tmp_path)
    write_data(folder)
    with ray_cluster(tmp_path / "logs"):
        plan, progress = gpu_plan(dtype, rank), Progress()
        speakers = Speakers(plan=plan, folder=folder, placement=HALF, progress=progress)
        run = Run(
            plan=plan,
            folder=folder,
            placement=HALF,
            progress=progress,
            run_id="gpu",
            speakers=speakers,
        )
        sft_history = recorded(sft(run).history, "sft", "history")
        fit = reward(run)
        ppo_history = recorded(ppo(run).history, "ppo", "history")
    assert any("loss" in line for line in sft_history) and any(
        "loss" in line for line in recorded(fit.history, "reward", "history")
    )
    assert (if_recorded(fit.undebated) or {})["scenes"] == 4
    assert [line["step"] for line in ppo_history] == [1, 2]
    assert ppo_history[0]["first_ratio_max"] == 1.0 and ppo_history[0]["first_kl_old"] == 0.0
    # Engine and trainer differ by rounding, not by weights.
    limit = 0.01 if dtype == "float32" else 0.2
    assert all(line["engine_mismatch_mean"] < limit for line in ppo_history)
    assert (tmp_path / "ppo/model/model.safetensors").exists()
    assert (tmp_path / "ppo/adapter").exists() == bool(rank)
