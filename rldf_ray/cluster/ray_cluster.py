"""Ray: connect to the cluster there is, or start a local one, and keep its chatter in files."""

from __future__ import annotations

import importlib.util
import logging
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from rldf_ray.cluster.address import LOCAL, joined_address, reachable_address
from rldf_ray.cluster.environment import waiting_environment
from rldf_ray.cluster.home import writable_home
from rldf_ray.cluster.import_path import import_path
from rldf_ray.cluster.interface import HOOK
from rldf_ray.cluster.nodes import cluster_resources
from rldf_ray.cluster.placement import Placement, Resources
from rldf_ray.cluster.ray_logs import keep_logs, link_logs
from rldf_ray.cluster.session_folder import check_session_folder
from rldf_ray.errors import UserError
from rldf_ray.signals import Terminated, handlers_kept, unwinding

WORKERS_END_S = 10.0
# Ray gives its own processes thirty seconds to come up, which a busy machine may exceed.
RAY_TOO_SLOW = "The current node timed out during startup"
STARTS = 3

IN_USE = (
    "this process is connected to Ray already, by another call or by ray.init: wait until that has "
    "ended, call ray.shutdown(), or make this call in a process of its own"
)

log = logging.getLogger(__name__)
_in_use = threading.Lock()


class RayInUseError(UserError):
    """A process has one connection to Ray, and another call would end with it."""


@contextmanager
def ray_cluster(logs: Path) -> Iterator[Resources]:
    """Ray, for as long as the block lasts; yields what it reports.

    `RAY_ADDRESS` names a cluster to join; without it a local one is started and ended with the
    block. The logs of Ray's processes, actors and engines are under `logs`/ray.

    Raises:
        RayInUseError: this process uses Ray already.
        ClusterAddressError: the cluster to join cannot be reached.
        SessionFolderError: a local one has no folder that its sockets could be in.
    """
    address = reachable_address()
    check_session_folder()
    target = logs / "ray"
    source: Path | None = None
    with _only_one(), unwinding(), writable_home():
        try:
            source = _start(address)
            link_logs(source, target)
            yield cluster_resources()
        finally:
            import ray

            workers = _workers()
            ray.shutdown()
            _end_those_left(workers)
            if source is not None:
                keep_logs(source, target)


@contextmanager
def _only_one() -> Iterator[None]:
    """What is shut down at the end of the block was started in it."""
    # Where nobody has imported it, nobody uses it.
    ray = sys.modules.get("ray")
    if not _in_use.acquire(blocking=False):
        raise RayInUseError(IN_USE)
    try:
        if ray is not None and ray.is_initialized():
            raise RayInUseError(IN_USE)
        yield
    finally:
        _in_use.release()


@contextmanager
def this_machine(logs: Path) -> Iterator[Resources]:
    """This machine as it is, for what endpoints answer: nothing is started, and Ray not needed."""
    memory_gib = psutil.virtual_memory().available / 2**30
    yield Resources(cpus=float(os.cpu_count() or 1), gpus=0.0, memory_gib=memory_gib)


def _start(address: str) -> Path:
    """Connect to Ray at `address`; returns the folder of its logs.

    Raises:
        Terminated: a signal asked for it meanwhile.
    """
    # Set before ray is imported, which reads them once.
    os.environ.setdefault("RAY_TRAIN_V2_ENABLED", "1")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray lets its workers run last; on a machine of their own the work is theirs.
    os.environ.setdefault("RAY_worker_niceness", "0")
    if address == LOCAL and "ray" not in sys.modules:
        # A cluster of this machine alone needs no address that others reach: its processes listen
        # on loopback, as they do by themselves on macOS and Windows.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    import ray

    try:
        # Ray's own handler of SIGTERM prints a stack and aborts.
        with handlers_kept():
            _patiently(
                ray.init,
                # Without an address Ray would also join whatever was started on this machine.
                address=address,
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
                runtime_env=_worker_settings(address),
            )
    except Terminated:
        raise
    except SystemExit:
        # A handler that Ray has while it starts.
        raise Terminated(signal.SIGTERM) from None
    node: Any = ray._private.worker.global_worker.node
    return Path(node.get_logs_dir_path())


def _patiently(init: Callable[..., Any], **options: Any) -> None:
    """Start Ray, again where its processes took longer than it waits for them."""
    for start in range(1, STARTS + 1):
        try:
            init(**options)
            return
        except Exception as error:
            # Ray has no class of its own for it.
            if start == STARTS or RAY_TOO_SLOW not in str(error):
                raise
            log.warning("Ray took too long to start on this machine: starting it again")


def remote(function: Callable[..., Any], placement: Placement, **options: Any) -> Any:
    """`function` as a Ray task with the resources of one training worker."""
    import ray

    task: Any = ray.remote(function)
    return task.options(num_cpus=placement.worker_cpus, num_gpus=placement.worker_gpus, **options)


def _workers() -> list[psutil.Process]:
    """What the local cluster runs on this machine; of a cluster that was joined, nothing."""
    raylets = [child for child in psutil.Process().children() if child.name() == "raylet"]
    return [worker for raylet in raylets for worker in raylet.children(recursive=True)]


def _end_those_left(workers: list[psutil.Process]) -> None:
    """A worker that hangs while it exits does not see its raylet go, and would stay for ever."""
    _, left = psutil.wait_procs(workers, timeout=WORKERS_END_S)
    for worker in left:
        # psutil distinguishes a process that has ended from a new one with its number.
        with suppress(psutil.NoSuchProcess):
            worker.kill()
    psutil.wait_procs(left, timeout=WORKERS_END_S)


def _worker_settings(address: str) -> dict[str, Any]:
    """What Ray gives every worker process; on several nodes they also have to meet."""
    settings: dict[str, Any] = {"env_vars": _worker_environment()}
    if address != LOCAL:
        settings["worker_process_setup_hook"] = HOOK
    return settings


def _worker_environment() -> dict[str, str]:
    """What actors and workers need: quiet libraries, and the package where it is not installed."""
    return {
        "PYTHONPATH": import_path(),
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "RAY_TRAIN_V2_ENABLED": "1",
        **waiting_environment(),
        # By default glibc returns every large tensor to the system when it is freed; mapping the
        # pages again took a fifth to a third of the processor time of training on a CPU. It keeps
        # what is above 64 MB, such as logits, only in the arena of the first thread. What is larger
        # than logits, such as a copy of a large vocabulary's output head at every pass, is given
        # back: a tenth of the time of a 1.5B model's PPO, whose memory the holes had trebled.
        "MALLOC_ARENA_MAX": "1",
        "MALLOC_MMAP_THRESHOLD_": str(2**28),
        "MALLOC_TRIM_THRESHOLD_": str(16 * 2**30),
    }


def reported_resources() -> Resources:
    """What Ray would report: the cluster's resources if one is running, else this machine's."""
    if importlib.util.find_spec("ray") is None:
        with this_machine(Path()) as resources:
            return resources
    if joined_address() is not None:
        with tempfile.TemporaryDirectory() as logs, ray_cluster(Path(logs)) as resources:
            return resources
    import ray._private.accelerators as accelerators
    from ray._private.utils import get_num_cpus

    gpus = accelerators.get_accelerator_manager_for_resource("GPU")
    count = gpus.get_current_node_num_accelerators() if gpus is not None else 0
    return Resources(get_num_cpus(), count, psutil.virtual_memory().available / 2**30)
