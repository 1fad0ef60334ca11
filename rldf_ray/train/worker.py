"""What SFT, reward model and PPO share: a Ray Train worker group with DeepSpeed in it.

driver --(TrainJob)--> TorchTrainer --> worker 0..n-1: loop(job)
   ^                                        |
   +------- progress.jsonl of rank 0 <------+
"""

from __future__ import annotations

import json
import logging
import os
import random
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from rldf_ray.cluster.placement import Placement
from rldf_ray.errors import UserError
from rldf_ray.plan import Plan, PPOSection, TrainSection
from rldf_ray.storage.json_text import json_text
from rldf_ray.storage.mirror import Mirror, copy_of
from rldf_ray.storage.object_store import ObjectStore, is_address
from rldf_ray.storage.periodic import repeated
from rldf_ray.storage.whole_files import whole_file
from rldf_ray.train.localize import UPLOAD_EVERY_S
from rldf_ray.train.loggers import open_loggers
from rldf_ray.train.loggers.logger import LoggedStage, Logger, TrackedRun
from rldf_ray.train.ray_trainer import ray_trainer
from rldf_ray.train.reasons import reason_of
from rldf_ray.train.shards import TRAINER, is_whole
from rldf_ray.train.unpickling import check_files

log = logging.getLogger(__name__)
PROGRESS = "progress.jsonl"
BEGAN = "began.json"
RAY_TRAIN = "ray_train"
SHORT_ROWS = 256


class TrainingError(UserError):
    """A training job failed; the message has the worker's own reason."""


@dataclass(frozen=True)
class TrainJob:
    """Everything a training loop needs, sent to every worker.

    Attributes:
        folders: named folders (inputs and the output, "out"): paths all workers reach, or addresses
            in an object store; a loop sees local paths.
        extra: what one loop alone needs.
        run: the run that experiment trackers add the job's figures to.
    """

    plan: Plan
    placement: Placement
    folders: Mapping[str, str]
    extra: Mapping[str, Any] = field(default_factory=dict)
    run: TrackedRun = field(default_factory=TrackedRun)


OnProgress = Callable[[int, int], None]


def run_training(
    loop: Callable[[dict[str, Any]], None], job: TrainJob, on_progress: OnProgress
) -> list[dict[str, Any]]:
    """Run `loop` on a Ray Train worker group; returns what rank 0 logged, a dict a step.

    Args:
        on_progress: called from a thread with (steps done, steps in all).

    Raises:
        TrainingError: a worker failed.
    """
    out = job.folders["out"]
    trainer = ray_trainer(loop, job, name=RAY_TRAIN, progress=PROGRESS)
    # Ray would go on from what an earlier driver recorded; our own checkpoints say more.
    here = _forget_ray_train(out)
    logged = LoggedStage(plan=job.plan, name=here.name, folder=here, run=job.run)
    with (
        open_loggers(logged) as loggers,
        _following(Follower(out, on_progress, loggers), UPLOAD_EVERY_S if is_address(out) else 0.5),
    ):
        try:
            trainer.fit()
        except Exception as error:
            raise TrainingError(reason_of(error, out)) from error
    return read_progress(out)


def _forget_ray_train(out: str) -> Path:
    """Remove what Ray Train recorded; returns the driver's own folder for the job."""
    if is_address(out):
        Mirror(out).remove(RAY_TRAIN)
        return copy_of(out)
    shutil.rmtree(Path(out) / RAY_TRAIN, ignore_errors=True)
    return Path(out)


def prepare_worker(job: TrainJob) -> int:
    """Called first in every loop: seeds, threads, device; returns the rank."""
    import ray.train

    if job.placement.device == "cpu":
        os.environ["DS_ACCELERATOR"] = "cpu"
        torch.set_num_threads(job.placement.threads)
        _without_inference_collectives()
    rank: int = ray.train.get_context().get_world_rank()
    random.seed(job.plan.seed + rank)
    torch.manual_seed(job.plan.seed + rank)
    return rank


def _without_inference_collectives() -> None:
    """DeepSpeed compiles a shared-memory reduction for inference at its first start on a CPU.

    That takes half a minute and a compiler, and training never calls it.
    """
    import deepspeed

    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False


def dtype_of(section: TrainSection | PPOSection) -> torch.dtype:
    return torch.float32 if section.dtype == "float32" else torch.bfloat16


def attention(job: TrainJob, longest: int) -> str:
    """How a transformers model attends while it is trained in `train.dtype`.

    Torch's fused attention in bfloat16 on a CPU takes longer than the plain one for short rows: a
    step of 8 rows of 130 tokens 1.3 times as long, at 256 tokens 1.1 times, at 512 as long.

    Args:
        longest: row [tokens].
    """
    short = job.placement.device == "cpu" and longest <= SHORT_ROWS
    return "eager" if short and job.plan.train.dtype == "bfloat16" else "sdpa"


def deepspeed_config(
    section: TrainSection,
    dtype: torch.dtype,
    *,
    micro_batch: int,
    accumulation: int,
    max_grad_norm: float,
) -> dict[str, Any]:
    """The DeepSpeed configuration of a plan; the optimizer is made by the caller."""
    zero: dict[str, Any] = {
        "stage": section.zero_stage,
        "stage3_gather_16bit_weights_on_model_save": True,
    }
    if section.offload and section.zero_stage >= 2:
        zero["offload_optimizer"] = {"device": "cpu"}
        if section.zero_stage == 3:
            zero["offload_param"] = {"device": "cpu"}
    return {
        "train_micro_batch_size_per_gpu": micro_batch,
        "gradient_accumulation_steps": accumulation,
        "gradient_clipping": max_grad_norm,
        "bf16": {"enabled": dtype == torch.bfloat16},
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": 10**9,
        "wall_clock_breakdown": False,
    }


def skip_reduction(engine: Any, train: TrainSection) -> None:
    """Of gradients, where one worker has nobody to reduce with: DeepSpeed would flatten them all.

    From ZeRO 1 on, what it does there is also how it shards.
    """
    if train.workers == 1 and train.zero_stage == 0:
        engine.enable_backward_allreduce = False


def trainer_arguments(job: TrainJob, section: Any) -> dict[str, Any]:
    """Arguments SFT and reward model give to TRL's trainers alike."""
    train, cpu = job.plan.train, job.placement.device == "cpu"
    accumulation = section.batch_size // (section.micro_batch * train.workers)
    return {
        "output_dir": str(Path(job.folders["out"]) / TRAINER),
        "per_device_train_batch_size": section.micro_batch,
        "per_device_eval_batch_size": section.micro_batch,
        "gradient_accumulation_steps": accumulation,
        "num_train_epochs": section.epochs,
        "learning_rate": section.learning_rate,
        "lr_scheduler_type": "cosine",
        # Below 1 it is a share of all steps.
        "warmup_steps": train.warmup_share,
        "weight_decay": train.weight_decay,
        "optim": "adamw_torch_fused",
        "use_cpu": cpu,
        "bf16": train.dtype == "bfloat16",
        "gradient_checkpointing": train.gradient_checkpointing,
        "seed": job.plan.seed,
        "data_seed": job.plan.seed,
        "logging_steps": 1,
        # A loss that is NaN would be logged as the mean of those before it.
        "logging_nan_inf_filter": False,
        "save_strategy": "no" if train.checkpoint_every is None else "steps",
        "save_steps": train.checkpoint_every or 500,
        "save_total_limit": train.checkpoint_keep,
        "report_to": [],
        "disable_tqdm": True,
        "dataloader_pin_memory": not cpu,
        "deepspeed": deepspeed_config(
            train,
            dtype_of(train),
            micro_batch=section.micro_batch,
            accumulation=accumulation,
            max_grad_norm=1.0,
        ),
    }


def last_checkpoint(job: TrainJob) -> str | None:
    """Where one of TRL's trainers goes on, if an earlier process of this job left a checkpoint.

    Raises:
        UnsafeFileError: it holds something else than a checkpoint does.
    """
    folders = (Path(job.folders["out"]) / TRAINER).glob("checkpoint-*")
    whole = [
        folder
        for folder in folders
        if is_whole({path.name for path in folder.iterdir()}, job.placement.workers)
    ]
    if not whole:
        return None
    last = max(whole, key=lambda folder: int(folder.name.rpartition("-")[2]))
    check_files(last)
    return str(last)


def note_begun(out: str | Path) -> None:
    """Say that the workers are up and the first step begins (rank 0 alone calls this).

    What was said first stays: workers that were lost and started again had begun before.
    """
    if not has_begun(out):
        (Path(out) / BEGAN).write_text(json_text({"at": time.time()}), encoding="utf-8")


def has_begun(out: str | Path) -> bool:
    """Whether workers of this job have begun before: those that were lost, if these have not."""
    return (Path(out) / BEGAN).exists()


def log_step(out: str | Path, entry: Mapping[str, Any]) -> None:
    """Append one step's figures to the job's progress file (rank 0 alone calls this).

    A figure that is no finite number is null there.
    """
    with (Path(out) / PROGRESS).open("a", encoding="utf-8") as file:
        file.write(json_text(entry) + "\n")


def rewrite_progress(out: str | Path, entries: Iterable[Mapping[str, Any]]) -> None:
    """Make the job's progress file these steps' figures (rank 0 alone calls this)."""
    with whole_file(Path(out) / PROGRESS) as scratch:
        text = "".join(json_text(entry) + "\n" for entry in entries)
        scratch.write_text(text, encoding="utf-8")


def read_progress(out: str) -> list[dict[str, Any]]:
    """All whole lines of the progress file in a folder, or at an address."""
    if is_address(out):
        text = ObjectStore(out).read(PROGRESS).decode()
    else:
        path = Path(out) / PROGRESS
        text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


class Follower:
    """Reads a job's progress file while it grows, for the driver's bar and its loggers.

    A job that lost a worker, or was killed, does some steps again and writes their lines again;
    each row goes to a logger once. A logger that fails is offered its row again at the next look,
    and ends nothing: the file has all figures.
    """

    def __init__(self, out: str, on_progress: OnProgress, loggers: Sequence[Logger]) -> None:
        self._out, self._on_progress, self._loggers = out, on_progress, loggers
        self._lines = 0
        self._failed: set[Logger] = set()

    def look(self) -> None:
        """Pass on what is new."""
        entries = read_progress(self._out)
        if entries and len(entries) != self._lines:
            self._on_progress(entries[-1]["step"], entries[-1]["steps"])
        self._lines = len(entries)
        for logger in self._loggers:
            try:
                _pass_on(entries, logger)
            except Exception as error:  # noqa: BLE001 - a tracker fails with errors of its own
                self._say_once(logger, error)

    def _say_once(self, logger: Logger, error: Exception) -> None:
        if logger not in self._failed:
            self._failed.add(logger)
            log.warning(
                "train.loggers: %s did not take row %d, and is offered it again (%r); all figures "
                "are in %s/%s",
                *(type(logger).__name__, logger.rows, error, self._out, PROGRESS),
            )


def _pass_on(entries: Sequence[Mapping[str, Any]], logger: Logger) -> None:
    for row, entry in enumerate(entries[logger.rows :], start=logger.rows):
        logger.log(row, entry["step"], _figures(entry))
        logger.rows = row + 1


def _figures(entry: Mapping[str, Any]) -> dict[str, float]:
    """What a line has besides its step, where it is a number."""
    return {
        name: value
        for name, value in entry.items()
        if name not in ("step", "steps") and value is not None
    }


@contextmanager
def _following(follower: Follower, every_s: float) -> Iterator[None]:
    """Let it look now and then while the job runs, and once more at the end."""
    try:
        with repeated(follower.look, every_s):
            yield
    finally:
        follower.look()
