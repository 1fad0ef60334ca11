"""PPO's loop from its first step to the saved model, in this process: one worker, no Ray."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from rldf_ray.models.base import ChatRequest, Completion, Usage
from rldf_ray.train.checkpoint import checkpoints
from rldf_ray.train.diverged import DivergedError
from rldf_ray.train.ppo import loop
from rldf_ray.train.ppo.loop import _loop
from rldf_ray.train.worker import TrainJob, read_progress
from tests.train.tiny import prompt_rows, random_rollouts, tiny_job

pytestmark = pytest.mark.usefixtures("alone")


class LostWorkerError(Exception):
    """The worker is gone, and leaves the engines as they are."""


class Engines:
    """Engines as a CPU has them: asleep they lose their weights, and answers are the policy's.

    Attributes:
        calls: sleep, wake, and the revisions synced, in order.
        lost_at: the sync of this revision loses the worker, once.
    """

    name = "engines"

    def __init__(self, lost_at: str | None = None) -> None:
        self.calls: list[str] = []
        self.revision, self.asleep, self.has_weights = "sft", False, True
        self.lost_at = lost_at

    def wait_until_ready(self) -> None: ...

    def sleep(self) -> None:
        self.calls.append("sleep")
        self.asleep, self.has_weights = True, False

    def wake(self) -> None:
        self.calls.append("wake")
        self.asleep = False

    def sync(self, policy: Any, revision: str) -> None:
        assert not self.asleep, "given weights while they sleep"
        if revision == self.lost_at:
            self.lost_at = None
            raise LostWorkerError
        self.calls.append(revision)
        self.revision, self.has_weights = revision, True

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        assert not self.asleep and self.has_weights, "asked for an answer before it has weights"
        mixed = random.Random(f"{self.revision}/{request.seed}").randrange(2**31)
        (rollout,) = random_rollouts(1, seed=mixed)
        return (
            Completion(
                text="recorded",
                finish_reason="stop",
                usage=Usage(),
                model=self.name,
                revision=self.revision,
                prompt_ids=rollout.prompt_ids,
                token_ids=rollout.answer_ids,
                logprobs=rollout.engine_logprobs,
            ),
        )


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def sync_of(engines: Engines) -> Iterator[Engines]:
        yield engines

    def prepared(job: TrainJob) -> int:
        torch.manual_seed(job.plan.seed)
        return 0

    monkeypatch.setattr(loop, "shared_memory_sync", sync_of)
    monkeypatch.setattr(loop, "prepare_worker", prepared)


def job_of(folders: dict[str, str], out: Path, engines: Engines, *overrides: str) -> TrainJob:
    """Four steps of PPO in `out`."""
    data = out.parent / "data"
    data.mkdir(parents=True, exist_ok=True)
    rows = [{**row, "split": "ppo"} for row in prompt_rows(8)]
    pq.write_table(pa.Table.from_pylist(rows), data / "prompts.parquet")
    out.mkdir(exist_ok=True)
    job = tiny_job(folders, *overrides, pool=engines)
    return replace(job, folders={**folders, "data": str(data), "out": str(out)})


def test_fresh_engines_hold_the_first_policy_and_are_sent_none(
    folders: dict[str, str], tmp_path: Path
) -> None:
    engines = Engines()
    _loop({"job": job_of(folders, tmp_path / "ppo", engines, "engines.sleep=true")})
    of_a_step = [["sleep", "wake", f"ppo-{step}"] for step in (1, 2, 3, 4)]
    assert engines.calls == [call for calls in of_a_step for call in calls]
    assert [line["step"] for line in read_progress(str(tmp_path / "ppo"))] == [1, 2, 3, 4]


@pytest.mark.parametrize("sleep", [True, False])
@pytest.mark.parametrize(
    ("every", "lost_at", "goes_on_with"),
    [(None, "ppo-1", "ppo-0"), (None, "ppo-3", "ppo-0"), (2, "ppo-4", "ppo-2")],
)
def test_a_replaced_worker_brings_the_engines_to_where_it_begins(
    folders: dict[str, str],
    tmp_path: Path,
    sleep: bool,
    every: int | None,
    lost_at: str,
    goes_on_with: str,
) -> None:
    engines = Engines(lost_at)
    options = (f"engines.sleep={sleep}", f"train.checkpoint_every={json.dumps(every)}")
    job = job_of(folders, tmp_path / "ppo", engines, *options)
    with pytest.raises(LostWorkerError):
        _loop({"job": job})
    if sleep:
        # It was lost between sending them to sleep and waking them.
        engines.asleep = True
    engines.calls.clear()
    _loop({"job": job})
    assert engines.calls[: 1 + sleep] == [*(["wake"] if sleep else []), goes_on_with]


@pytest.mark.parametrize("overlap", [False, True])
def test_a_checkpoints_score_is_its_own_policys(
    folders: dict[str, str], tmp_path: Path, overlap: bool
) -> None:
    out = tmp_path / "ppo"
    options = ("train.checkpoint_every=1", "train.checkpoint_keep=9", "ppo.held_out_prompts=2")
    engines = Engines()
    ahead = ("engines.sleep=false", f"ppo.overlap={overlap}")
    _loop({"job": job_of(folders, out, engines, *options, *ahead)})
    rewards = [line["held_out_reward"] for line in read_progress(str(out))]
    # Ahead of an update, answers are of the policy before it.
    behind = 1 if overlap else 0
    measured = [*rewards[1 + behind :], *[None] * (1 + behind)]
    assert [checkpoint.score for checkpoint in checkpoints(out)] == measured
    assert len(set(rewards)) == 4 - behind


def test_a_training_that_diverges_ends_at_that_step(
    folders: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "ppo"
    options = ("ppo.learning_rate=1e38", "train.checkpoint_every=1", "ppo.kl_target=1.0")
    with pytest.raises(DivergedError, match=r"ppo: (kl|policy_loss) is not a finite .* at step 2:"):
        _loop({"job": job_of(folders, out, Engines(), *options)})
    assert [checkpoint.step for checkpoint in checkpoints(out)] == [1]
