"""PPO on Ray Train workers: sharding changes nothing, a killed worker changes nothing.

Tiny random models, and recorded answers in the engine's place.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from rldf_ray.train.ppo.loop import train_ppo
from tests.train.cluster_jobs import cluster_job, weights_in

pytestmark = pytest.mark.cluster


def run(folders: dict[str, str], out: Path, *overrides: str, kill_at: Path | None = None):  # type: ignore[no-untyped-def]
    job = cluster_job(folders, out, *overrides, kill_at=kill_at)
    history = [
        {name: value for name, value in line.items() if not name.endswith("seconds")}
        for line in train_ppo(job, on_progress=lambda done, total: None)
    ]
    return history, weights_in(out / "model")


def test_a_killed_worker_goes_on_from_its_checkpoint_bit_for_bit(
    ray: None, folders: dict[str, str], tmp_path: Path
) -> None:
    overlap = ("ppo.overlap=true", "engines.sleep=false")
    options = ("train.checkpoint_every=2", "ppo.kl_target=0.01", *overlap)
    expected, straight = run(folders, tmp_path / "straight", *options)
    killed = tmp_path / "killed"
    history, weights = run(
        folders, tmp_path / "run [v2]/again", *options, "train.max_failures=1", kill_at=killed
    )
    assert killed.exists()
    # Recorded answers are the same again; a live engine's need not be.
    assert history[2].pop("repeated_answers") == 4 and history[2].pop("repeated_tokens") == 0
    assert history == expected and [line["step"] for line in history] == [1, 2, 3, 4]
    assert weights.keys() == straight.keys()
    assert all(torch.equal(weights[name], straight[name]) for name in straight)
    text = (tmp_path / "run [v2]/again/answers.jsonl").read_text(encoding="utf-8")
    answers = text.splitlines()
    steps = [json.loads(line)["step"] for line in answers]
    assert steps == [1] * 4 + [2] * 4 + [3] * 4 + [4] * 4


@pytest.mark.parametrize("lora", [False, True])
def test_workers_and_zero_stages_give_the_same_weights(
    ray: None, request: pytest.FixtureRequest, tmp_path: Path, lora: bool
) -> None:
    folders = request.getfixturevalue("adapters" if lora else "folders")
    three_steps = (
        "ppo={episodes: 12, rollout_batch: 4, batch_size: 4, micro_batch: 2, "
        "max_tokens: 6, dtype: float32, learning_rate: 0.001, critic_learning_rate: 0.001}"
    )
    adapters = "train.lora.rank=4" if lora else "train.lora.rank=0"
    expected, alone = run(folders, tmp_path / "alone", three_steps, adapters)
    for stage in (2,) if lora else (0, 3):
        out = tmp_path / f"zero-{stage}"
        sharding = (f"train.zero_stage={stage}", "train.workers=2")
        history, weights = run(folders, out, three_steps, adapters, *sharding)
        for found, line in zip(history, expected, strict=True):
            assert found == pytest.approx(line, rel=2e-3, abs=1e-5), stage
        for name, weight in alone.items():
            # Rounding decides Adam's direction where a gradient is next to nothing.
            torch.testing.assert_close(weights[name], weight, rtol=0, atol=4e-3)
            assert (weights[name] - weight).abs().mean() < 2e-5, (stage, name)
