"""Ray Train's trainer of a job, as we use it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rldf_ray.cluster.placement import Placement
from rldf_ray.train.localize import localize_inputs

if TYPE_CHECKING:
    from rldf_ray.train.worker import TrainJob

CLEANER = "PlacementGroupCleanerCallback"


def ray_trainer(
    loop: Callable[[dict[str, Any]], None], job: TrainJob, *, name: str, progress: str
) -> Any:
    """A TorchTrainer that runs `loop` on the job's workers.

    Args:
        name: of its folder in the job's.
        progress: the file in the job's folder that is uploaded while it grows.
    """
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    trainer: Any = TorchTrainer(
        localize_inputs(loop, progress),
        train_loop_config={"job": job},
        torch_config=TorchConfig(backend="nccl" if job.placement.device == "cuda" else "gloo"),
        scaling_config=ScalingConfig(
            num_workers=job.placement.workers,
            use_gpu=job.placement.device == "cuda",
            resources_per_worker=_resources(job.placement),
        ),
        run_config=RunConfig(
            name=name,
            storage_path=job.folders["out"],
            failure_config=FailureConfig(max_failures=job.plan.train.max_failures),
        ),
    )
    # Ray's handler of Ctrl-C waits for its controller, then exits with a status of its own.
    trainer._register_sigint_handler = lambda controller: None
    _drop_cleaner(trainer)
    return trainer


def _drop_cleaner(trainer: Any) -> None:
    """Without the callback that ends workers whose controller it holds for dead.

    It asks Ray's state service, and takes a controller that is missing from a late or partial reply
    for dead: a job on a busy machine ended for nothing. What it is for, Ray does as the driver
    ends.
    """
    default = trainer._create_default_callbacks
    trainer._create_default_callbacks = lambda: [
        callback for callback in default() if type(callback).__name__ != CLEANER
    ]


def _resources(placement: Placement) -> dict[str, float]:
    resources: dict[str, float] = {"CPU": placement.worker_cpus}
    if placement.worker_gpus:
        resources["GPU"] = placement.worker_gpus
    return resources | placement.pinned()
