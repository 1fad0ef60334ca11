"""SFT and reward model on Ray Train workers, with adapters and with a kill, on tiny models."""

from __future__ import annotations

import os
import random
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from datasets import Dataset
from safetensors.torch import load_file

from rldf_ray.models.chat_template import ChatTemplate
from rldf_ray.models.reward_score import RewardModel
from rldf_ray.train.best_pass import best_pass, losses
from rldf_ray.train.held_out import read_right
from rldf_ray.train.reward import train_reward
from rldf_ray.train.sft import apart, encode, train_sft
from rldf_ray.train.worker import TrainJob, log_step
from tests.train.cluster_jobs import weights_in
from tests.train.conftest import with_adapters
from tests.train.tiny import CPU, WORDS, tiny_job

pytestmark = pytest.mark.cluster
SIZES = (
    "sft={batch_size: 4, micro_batch: 2, max_length: 64, learning_rate: 0.003}",
    "reward={batch_size: 4, micro_batch: 2, max_length: 64, learning_rate: 0.003}",
    "ppo.micro_batch=2",
    "reward.held_out_share=0.2",
    "train.dtype=float32",
)


def job_of(folders: dict[str, str], out: Path, *overrides: str) -> TrainJob:
    data = out.parent / "data"
    data.mkdir(parents=True, exist_ok=True)
    draw = random.Random(0)

    def says(role: str, words: tuple[str, ...] = WORDS) -> list[dict[str, str]]:
        return [{"role": role, "content": " ".join(draw.choices(words, k=draw.randint(3, 9)))}]

    good, bad = WORDS[:20], WORDS[20:]
    sft = [
        {
            "topic_id": f"t{i}",
            "prompt": says("user"),
            "completion": says("assistant", good),
        }
        for i in range(24)
    ]
    pairs = [
        {
            "topic_id": f"t{i}",
            "prompt": says("user"),
            "chosen": says("assistant", good),
            "rejected": says("assistant", bad),
        }
        for i in range(30)
    ]
    pq.write_table(pa.Table.from_pylist(sft), data / "sft.parquet")
    pq.write_table(pa.Table.from_pylist(pairs), data / "pairs.parquet")
    out.mkdir(parents=True, exist_ok=True)
    job = tiny_job(folders, *SIZES, *overrides)
    workers = job.plan.train.workers
    return replace(
        job,
        placement=replace(CPU, workers=workers, worker_cpus=0.5),
        folders={**folders, "data": str(data), "out": str(out)},
    )


def ignore(done: int, total: int) -> None: ...


def test_sft_with_an_adapter_leaves_it_beside_the_merged_model(
    ray: None, folders: dict[str, str], tmp_path: Path
) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    out = tmp_path / "sft-lora"
    lora, two = "train.lora={rank: 4, alpha: 8}", "train={workers: 2, zero_stage: 2}"
    history = train_sft(
        job_of(folders, out, two, "train.dtype=float32", "sft.epochs=4", lora), ignore
    )
    losses = [line["loss"] for line in history if "loss" in line]
    assert losses[-1] < losses[0]
    base = AutoModelForCausalLM.from_pretrained(folders["model"])
    adapted = PeftModel.from_pretrained(base, out / "adapter").merge_and_unload().state_dict()
    merged = AutoModelForCausalLM.from_pretrained(out / "model").state_dict()
    for name, weight in merged.items():
        torch.testing.assert_close(adapted[name], weight)


@pytest.mark.parametrize("rank", [0, 4])
def test_sft_leaves_the_pass_with_the_lowest_loss_on_held_out_examples(
    ray: None, folders: dict[str, str], tmp_path: Path, rank: int
) -> None:
    """Random words cannot be learned: after some passes the loss on others of them rises."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    out = tmp_path / "sft-held-out"
    options = ("sft.epochs=10", "sft.held_out_share=0.25", "sft.learning_rate=0.03")
    adapter = (f"train.lora={{rank: {rank}, alpha: 8}}", "train.dtype=float32")
    job = job_of(folders, out, *options, *adapter)
    history = train_sft(job, ignore)
    measured, best = [*losses(history).values()], best_pass(history)
    assert len(measured) == 10 and best is not None and best < 10
    tokenizer = AutoTokenizer.from_pretrained(folders["model"])
    template = ChatTemplate(tokenizer, folders["model"])
    examples = Dataset.from_parquet(str(Path(job.folders["data"]) / "sft.parquet"))
    learned, test = apart(examples, 0.25)
    assert (len(learned), len(test)) == (18, 6)
    model = AutoModelForCausalLM.from_pretrained(out / "model")
    total = tokens = 0.0
    for row in test:
        encoded = {k: torch.tensor([v]) for k, v in encode(row, template).items()}
        with torch.no_grad():
            loss = float(model(**encoded).loss)
        number = int((encoded["labels"] != -100).sum())
        total, tokens = total + loss * number, tokens + number
    assert abs(total / tokens - min(measured)) < 0.1 * (max(measured) - min(measured))


@pytest.mark.parametrize("rank", [0, 4])
def test_reward_model_learns_on_two_workers(
    ray: None, folders: dict[str, str], tmp_path: Path, rank: int
) -> None:
    out = tmp_path / "reward-job"
    history = train_reward(
        job_of(
            folders,
            out,
            "train={workers: 2, zero_stage: 1}",
            "train.dtype=float32",
            f"train.lora.rank={rank}",
            "reward.epochs=4",
        ),
        ignore,
    )
    accuracy = [line["eval_accuracy"] for line in history if "eval_accuracy" in line]
    assert accuracy and accuracy[-1] > 0.7
    right = read_right(out / "held_out.json")
    assert right is not None and all(number == 1 for _, number in right.values())
    assert len(right) == 6 and sum(one for one, _ in right.values()) > 0.7 * 6
    assert (out / "adapter").exists() == bool(rank)
    model = RewardModel(out / "model", "cpu", 64)
    good, bad = ([model.tokenizer.encode(" ".join(words))] for words in (WORDS[:8], WORDS[20:28]))
    assert float(model.score([[1, 4]], good)) > float(model.score([[1, 4]], bad))


def test_a_reward_models_adapter_begins_as_that_of_sft(
    ray: None, folders: dict[str, str], tmp_path: Path
) -> None:
    begun = Path(with_adapters(folders, layers=1.0)["sft"]).parent / "adapter"
    out = tmp_path / "reward-job"
    # Steps too small to leave where it began, which a new adapter would be far from.
    still = ("reward.learning_rate=1e-9", "reward.centre=0.02", "train.dtype=float32")
    lora = "train.lora={rank: 4, alpha: 8}"
    train_reward(job_of(folders | {"adapter": str(begun)}, out, lora, *still), ignore)
    ours, theirs = (load_file(at / "adapter_model.safetensors") for at in (out / "adapter", begun))
    assert theirs.keys() < ours.keys()
    for name, weight in theirs.items():
        torch.testing.assert_close(ours[name], weight)


def test_sft_goes_on_from_its_checkpoint_and_ends_where_it_would_have(
    ray: None, folders: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = "train.checkpoint_every=2"
    straight = job_of(folders, tmp_path / "straight", every)
    expected = train_sft(straight, ignore)
    # Libraries look for checkpoints and rows by patterns, and brackets are part of one.
    again = job_of(folders, tmp_path / "run [v2]/again", every, "train.max_failures=1")
    import rldf_ray.train.sft as sft

    loop = sft._loop
    monkeypatch.setattr(sft, "_loop", _Killed(loop, tmp_path / "killed"))
    history = train_sft(again, ignore)
    assert (tmp_path / "killed").exists()
    assert [line["step"] for line in history] == [line["step"] for line in expected]
    for figure in ("loss", "num_tokens"):
        assert [line.get(figure) for line in history] == [line.get(figure) for line in expected]
    assert history[-1]["train_loss"] == pytest.approx(expected[-1]["train_loss"])
    ours = weights_in(tmp_path / "run [v2]/again/model")
    theirs = weights_in(tmp_path / "straight/model")
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


class _Killed:
    """A training loop whose first process dies by SIGKILL when it logs step 3."""

    def __init__(self, loop: Any, killed: Path) -> None:
        self._loop, self._killed = loop, killed

    def __call__(self, config: dict[str, Any]) -> None:
        import rldf_ray.train.trl_callbacks as progress

        def log_or_die(out: str, entry: dict[str, Any]) -> None:
            if entry["step"] == 3 and not self._killed.exists():
                self._killed.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            log_step(out, entry)

        progress.log_step = log_or_die  # type: ignore[assignment]
        self._loop(config)
