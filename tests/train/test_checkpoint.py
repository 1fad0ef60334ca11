"""Checkpoints: whole or not there, everything in them, and the best one stays."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rldf_ray.train.checkpoint import (
    CheckpointError,
    checkpoints,
    load_checkpoint,
    remove_old,
    rewind,
    rng_state,
    save_checkpoint,
    set_rng_state,
    set_score,
)
from rldf_ray.train.ppo.rollout import Rollout
from rldf_ray.train.ppo.step import PPO
from rldf_ray.train.unpickling import UnsafeFileError, check_files
from rldf_ray.train.worker import TrainJob, last_checkpoint
from tests.fakes import plan_with
from tests.train.tiny import CPU, random_rollouts, tiny_job

STATEFUL = (
    "ppo.kl_target=0.01",
    "ppo.kl_horizon=40",
    "ppo.reward_normalise=true",
    "ppo.value_warmup=1",
)


def save(out: Path, step: int, score: float | None = None, **state: Any) -> None:
    save_checkpoint(out, 0, {}, state, lambda folder: None, step=step)
    if score is not None:
        set_score(out, step, score)


def steps_in(out: Path) -> list[int]:
    return [c.step for c in checkpoints(out)]


def train(ppo: PPO, steps: range) -> list[dict[str, float]]:
    """PPO steps on recorded rollouts."""
    return [
        ppo.step(random_rollouts(4, seed=step), torch.linspace(-1, step, 4))[0] for step in steps
    ]


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("lora", [False, True])
def test_two_and_two_steps_are_four_steps_bit_for_bit(
    folders: dict[str, str], tmp_path: Path, lora: bool, request: pytest.FixtureRequest
) -> None:
    if lora:
        folders = request.getfixturevalue("adapters")
    job = tiny_job(folders, *STATEFUL, *(["train.lora={rank: 4}"] if lora else []))
    straight = PPO(job)
    expected = train(straight, range(4))

    first = PPO(job)
    train(first, range(2))
    save_checkpoint(
        tmp_path,
        0,
        first.engines,
        {"ppo": first.state_dict()},
        lambda folder: first.models.export(first.models.policy(), folder),
        step=2,
    )
    train(first, range(2, 3))  # what comes after the checkpoint is lost
    second = PPO(job)
    (checkpoint,) = checkpoints(tmp_path)
    second.load_state_dict(load_checkpoint(checkpoint, 0, 1, second.engines)["ppo"])
    assert train(second, range(2, 4)) == expected[2:]
    for name, engine in straight.engines.items():
        theirs = second.engines[name].module.state_dict()
        for key, value in engine.module.state_dict().items():
            assert torch.equal(value, theirs[key]), key


@pytest.mark.usefixtures("alone")
def test_the_exported_folder_is_the_policy(folders: dict[str, str], tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    ppo = PPO(tiny_job(folders))
    train(ppo, range(1))
    ppo.models.export(ppo.models.policy(), tmp_path)
    saved = AutoModelForCausalLM.from_pretrained(tmp_path / "model").state_dict()
    for key, value in ppo.models.actor.module.state_dict().items():
        assert torch.equal(saved[key], value)


def test_a_checkpoint_that_is_cut_short_is_passed_over(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        save(tmp_path, step, 0.0, x=list(range(100)))
    folder = tmp_path / "checkpoints"
    (folder / "step-000003/manifest.json").unlink()
    state = folder / "step-000002/state-0.pt"
    state.write_bytes(state.read_bytes()[:-1])
    (folder / ".step-000004").mkdir()
    assert steps_in(tmp_path) == [1]


def test_old_checkpoints_go_but_never_the_best(tmp_path: Path) -> None:
    for step, score in enumerate([0.1, 0.9, 0.2, 0.3, 0.4], start=1):
        save(tmp_path, step, score)
        remove_old(tmp_path, keep=2)
    assert steps_in(tmp_path) == [2, 4, 5]
    save(tmp_path, 6, 1.5)
    remove_old(tmp_path, keep=2)
    assert steps_in(tmp_path) == [5, 6]


def test_a_checkpoint_without_a_score_may_come_to_be_the_best(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        save(tmp_path, step)
        remove_old(tmp_path, keep=1)
    assert [c.score for c in checkpoints(tmp_path)] == [None] * 3
    for step, score in enumerate([0.5, 0.7, 0.6], start=1):
        set_score(tmp_path, step, score)
    set_score(tmp_path, 4, 9.0)  # of which there is no checkpoint
    remove_old(tmp_path, keep=1)
    assert [(c.step, c.score) for c in checkpoints(tmp_path)] == [(2, 0.7), (3, 0.6)]


def test_another_number_of_workers_is_refused(tmp_path: Path) -> None:
    save(tmp_path, 1, 0.0)
    with pytest.raises(CheckpointError, match=r"written by 1 workers, this job has 2.*workers=1"):
        load_checkpoint(checkpoints(tmp_path)[0], 0, 2, {})


def test_every_generator_goes_on_where_it_was(tmp_path: Path) -> None:
    def draw() -> list[float]:
        return [random.random(), float(np.random.rand()), float(torch.rand(1))]

    save(tmp_path, 1, 0.0, x=1)
    expected = draw()
    before = rng_state()
    assert draw() != expected
    assert load_checkpoint(checkpoints(tmp_path)[0], 0, 1, {}) == {"x": 1}
    assert draw() == expected
    set_rng_state(before)
    assert draw() != expected


class Command:
    """What a pickle may do where anything is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("name", ["state-0.pt", "actor/mp_rank_00_model_states.pt"])
def test_a_checkpoint_that_names_a_function_is_refused_and_calls_nothing(
    tmp_path: Path, name: str
) -> None:
    save(tmp_path, 1, 0.0)
    (checkpoint,) = checkpoints(tmp_path)
    (checkpoint.folder / "actor").mkdir()
    torch.save({"module": Command(tmp_path / "called")}, checkpoint.folder / name)
    # As whoever writes the one can write the other.
    manifest = json.loads((checkpoint.folder / "manifest.json").read_text(encoding="utf-8"))
    manifest["files"] = {name: (checkpoint.folder / name).stat().st_size}
    (checkpoint.folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    with pytest.raises(UnsafeFileError, match=rf"{name} holds something .*find out who wrote it"):
        load_checkpoint(checkpoint, 0, 1, {"actor": FakeEngine()})
    assert not (tmp_path / "called").exists()


class FakeEngine:
    def load_checkpoint(self, folder: str, tag: str) -> None:
        assert tag == "actor"


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_what_deepspeed_writes_is_let_in(
    folders: dict[str, str], tmp_path: Path, stage: int
) -> None:
    ppo = PPO(tiny_job(folders, f"train.zero_stage={stage}"))
    train(ppo, range(1))
    for name, engine in ppo.engines.items():
        engine.save_checkpoint(str(tmp_path), tag=name, save_latest=False)
    assert len(list(tmp_path.rglob("*optim_states.pt"))) == len(ppo.engines)
    check_files(tmp_path)


def test_so_is_one_of_trls_trainers(tmp_path: Path) -> None:
    job = TrainJob(plan_with(), CPU, {"out": str(tmp_path)})
    folder = tmp_path / "trainer/checkpoint-8"
    (folder / "global_step8").mkdir(parents=True)
    (folder / "trainer_state.json").write_text("{}", encoding="utf-8")
    torch.save({"x": Command(tmp_path / "called")}, folder / "global_step8/optim_states.pt")
    with pytest.raises(UnsafeFileError, match=r"optim_states\.pt holds something"):
        last_checkpoint(job)
    assert not (tmp_path / "called").exists()


def test_rollouts_in_flight_come_back(tmp_path: Path) -> None:
    flight = {3: (random_rollouts(2, seed=1), [])}
    save(tmp_path, 1, 0.0, in_flight=flight)
    (checkpoint,) = checkpoints(tmp_path)
    assert load_checkpoint(checkpoint, 0, 1, {}, (Rollout,)) == {"in_flight": flight}


def test_lines_after_the_checkpoint_are_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    lines = [{"step": 1}, {"step": 2}, {"step": 2, "more": 1}, {"step": 3}]
    path.write_text(
        "".join(json.dumps(line) + "\n" for line in lines) + '{"step": 4, "to', encoding="utf-8"
    )
    rewind([path, tmp_path / "absent.jsonl"], 2)
    assert [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] == lines[:3]
    rewind([path], 0)
    assert path.read_text(encoding="utf-8") == ""


def test_a_checkpoint_of_trls_trainers_without_its_state_is_passed_over(tmp_path: Path) -> None:
    job = TrainJob(plan_with(), CPU, {"out": str(tmp_path)})
    assert last_checkpoint(job) is None
    for name in ("checkpoint-8", "checkpoint-10", "checkpoint-12"):
        (tmp_path / "trainer" / name).mkdir(parents=True)
        (tmp_path / "trainer" / name / "model.safetensors").touch()
    assert last_checkpoint(job) is None
    for name in ("checkpoint-8", "checkpoint-10"):
        (tmp_path / "trainer" / name / "trainer_state.json").write_text("{}", encoding="utf-8")
    assert last_checkpoint(job) == str(tmp_path / "trainer/checkpoint-10")
