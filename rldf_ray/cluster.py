"""Ray: connect to the cluster there is, or start a local one, and keep its chatter in files."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rldf_ray.placement import Placement, Resources


@contextmanager
def ray_cluster(logs: Path) -> Iterator[Resources]:
    """Ray, for as long as the block lasts; yields what it reports.

    `RAY_ADDRESS` names a cluster to join; without it a local one is started and ended with the
    block. The logs of Ray's processes, actors and engines are under `logs`/ray.
    """
    # Set before ray is imported, which reads them once.
    os.environ.setdefault("RAY_TRAIN_V2_ENABLED", "1")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # vLLM's engine core is a child of its actor's process: nothing of it may outlive the actor.
    os.environ.setdefault("RAY_kill_child_processes_on_worker_exit_with_raylet_subreaper", "1")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray lets its workers run last; on a machine of their own the work is theirs.
    os.environ.setdefault("RAY_worker_niceness", "0")
    import ray

    ray.init(
        # Without an address Ray would also join whatever was started on this machine.
        address=os.environ.get("RAY_ADDRESS", "local"),
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        runtime_env={"env_vars": _worker_environment()},
    )
    node: Any = ray._private.worker.global_worker.node
    source = Path(node.get_logs_dir_path())
    target = logs / "ray"
    _link(source, target)
    try:
        yield _resources(ray)
    finally:
        ray.shutdown()
        _keep(source, target)


def remote(function: Callable[..., Any], placement: Placement, **options: Any) -> Any:
    """`function` as a Ray task with the resources of one training worker."""
    import ray

    task: Any = ray.remote(function)
    return task.options(num_cpus=placement.worker_cpus, num_gpus=placement.worker_gpus, **options)


def _worker_environment() -> dict[str, str]:
    """What actors and workers need: quiet libraries, and the package where it is not installed."""
    return {
        "PYTHONPATH": os.pathsep.join(
            [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        ),
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "RAY_TRAIN_V2_ENABLED": "1",
        # By default glibc returns every large tensor to the system when it is freed; mapping the
        # pages again took a fifth to a third of the processor time of training on a CPU.
        "MALLOC_MMAP_THRESHOLD_": str(64 * 2**20),
        "MALLOC_TRIM_THRESHOLD_": str(16 * 2**30),
    }


def _resources(ray: object) -> Resources:
    reported: dict[str, float] = ray.cluster_resources()  # type: ignore[attr-defined]
    return Resources(
        cpus=reported.get("CPU", 0.0),
        gpus=reported.get("GPU", 0.0),
        memory_gib=(reported.get("memory", 0.0) + reported.get("object_store_memory", 0.0)) / 2**30,
    )


def _link(source: Path, target: Path) -> None:
    """While Ray runs, `target` shows its log folder."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_symlink():
        target.unlink()
    elif target.exists():
        shutil.rmtree(target)
    target.symlink_to(source)


def _keep(source: Path, target: Path) -> None:
    """After Ray has ended, `target` has a copy: Ray's own folder is temporary."""
    if target.is_symlink():
        target.unlink()
    shutil.copytree(source, target, dirs_exist_ok=True, ignore_dangling_symlinks=True)
