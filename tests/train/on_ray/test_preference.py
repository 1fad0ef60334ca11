"""DPO and KTO on Ray Train workers: with a kill, with adapters, with two workers; tiny models."""

from __future__ import annotations

import math
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from rldf_ray.train.dpo import train_dpo
from rldf_ray.train.held_out import read_right
from rldf_ray.train.kto import train_kto
from tests.train.cluster_jobs import weights_in
from tests.train.conftest import with_adapters
from tests.train.on_ray.test_trl import _Killed, ignore, job_of

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
TRAINED = {"dpo": train_dpo, "kto": train_kto}
FAST = (
    "train.after=[dpo, kto]",
    *(
        f"{name}={{batch_size: 4, micro_batch: 2, max_length: 64, learning_rate: 0.003, "
        "held_out_share: 0.2}"
        for name in TRAINED
    ),
)


def losses(history: list[dict[str, Any]]) -> list[float]:
    return [line["loss"] for line in history if "loss" in line]


@pytest.mark.parametrize("name", TRAINED)
def test_a_policy_goes_on_from_its_checkpoint_with_the_same_losses_and_weights(
    name: str, ray: None, folders: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = "train.checkpoint_every=2"
    expected = TRAINED[name](job_of(folders, tmp_path / "straight", *FAST, every), ignore)
    module = import_module(f"rldf_ray.train.{name}")
    monkeypatch.setattr(module, "_loop", _Killed(module._loop, tmp_path / "killed"))
    again = job_of(folders, tmp_path / "again", *FAST, every, "train.max_failures=1")
    history = TRAINED[name](again, ignore)
    assert (tmp_path / "killed").exists()
    assert losses(history) == losses(expected)
    ours, theirs = (weights_in(tmp_path / run / "model") for run in ("again", "straight"))
    assert all(torch.equal(ours[key], theirs[key]) for key in theirs)
    begun = weights_in(Path(folders["model"]))
    assert any(not torch.equal(ours[key], begun[key]) for key in begun)
    figures = [
        [line[figure] for line in run if figure in line]
        for run in (history, expected)
        for figure in ("eval_accuracy", "eval_margin")
    ]
    # Good words have come to be told from bad ones.
    assert figures[:2] == figures[2:] and figures[0][-1] > 0.7
    right = read_right(tmp_path / "again/held_out.json")
    assert right is not None and len(right) == 6
    assert sum(one for one, _ in right.values()) == pytest.approx(6 * figures[0][-1])


def test_two_workers_learn_what_one_does(
    ray: None, folders: dict[str, str], tmp_path: Path
) -> None:
    alone = train_dpo(job_of(folders, tmp_path / "one", *FAST), ignore)
    two = ("train={workers: 2, zero_stage: 3}", "train.dtype=float32")
    together = train_dpo(job_of(folders, tmp_path / "two", *two, *FAST), ignore)
    # On two workers the last batch is filled up with rows from the start.
    assert losses(together)[:3] == pytest.approx(losses(alone)[:3], abs=2e-3)


def test_an_adapter_goes_on_as_that_of_sft_and_is_measured_against_it(
    ray: None, folders: dict[str, str], tmp_path: Path
) -> None:
    begun = Path(with_adapters(folders, layers=1.0)["sft"]).parent / "adapter"
    out = tmp_path / "adapted"
    lora = "train.lora={rank: 4, alpha: 8}"
    job = job_of(folders | {"adapter": str(begun)}, out, *FAST, lora, "train.dtype=float32")
    # At the first step policy and reference are the same, so nothing is preferred.
    assert losses(train_dpo(job, ignore))[0] == pytest.approx(math.log(2), abs=1e-3)
    ours, theirs = (load_file(at / "adapter_model.safetensors") for at in (out / "adapter", begun))
    assert ours.keys() == theirs.keys()
    assert any(not torch.equal(ours[key], theirs[key]) for key in theirs)
    assert not (out / "adapter/ref").exists() and (out / "model/config.json").exists()
