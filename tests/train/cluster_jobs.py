"""Training jobs on a Ray cluster of this machine, with recorded answers in an engine's place."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rldf_ray.models.base import ChatRequest, Completion, Usage
from rldf_ray.train.worker import TrainJob
from tests.train.tiny import CPU, prompt_rows, random_rollouts, tiny_job


class RecordedPool:
    """Answers every address with the rollout recorded for it.

    Args:
        kill_at: a file; at revision "ppo-3" the process that finds none there makes it and dies.
    """

    name = "recorded"

    def __init__(self, kill_at: Path | None = None) -> None:
        self._kill_at = kill_at
        self._asleep = False

    def sleep(self) -> None:
        self._asleep = True

    def wake(self) -> None:
        self._asleep = False

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        assert not self._asleep, "asked while it sleeps"
        (rollout,) = random_rollouts(1, seed=request.seed)
        return (
            Completion(
                text="recorded",
                finish_reason="stop",
                usage=Usage(),
                model=self.name,
                revision="0",
                prompt_ids=rollout.prompt_ids,
                token_ids=rollout.answer_ids,
                logprobs=rollout.engine_logprobs,
            ),
        )

    def wait_until_ready(self) -> None: ...

    def sync_weights(self, folder: str, revision: str, *, everywhere: bool = True) -> None:
        assert not self._asleep, "given new weights while it sleeps"
        if self._kill_at is not None and revision == "ppo-3" and not self._kill_at.exists():
            self._kill_at.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    sync_adapter = sync_weights


def cluster_job(
    folders: dict[str, str], out: Path, *overrides: str, kill_at: Path | None = None
) -> TrainJob:
    """A PPO job in `out` with its prompts, for as many workers as the overrides say."""
    data = out.parent / "data"
    data.mkdir(parents=True, exist_ok=True)
    rows = [{**row, "split": "ppo"} for row in prompt_rows(8)]
    pq.write_table(pa.Table.from_pylist(rows), data / "prompts.parquet")
    out.mkdir(parents=True)
    job = tiny_job(folders, *overrides, pool=RecordedPool(kill_at))
    workers = job.plan.train.workers
    placement = replace(CPU, workers=workers, worker_cpus=0.5)
    folders = {**folders, "data": str(data), "out": str(out)}
    return replace(job, placement=placement, folders=folders)


def weights_in(folder: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")
