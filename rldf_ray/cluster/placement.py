"""The one planner: where engines and trainers go, and whether the plan fits what Ray reports.

It decides before anything starts. On a machine without GPUs engines and trainers take turns on all
cores; where GPUs suffice, PPO's engines and workers have devices of their own. One engine and one
worker can share a single GPU. Without PPO engines have ended when workers train.
"""

from __future__ import annotations

from dataclasses import dataclass

from rldf_ray.cluster.resources import NodeSize as NodeSize
from rldf_ray.cluster.resources import PlacementError as PlacementError
from rldf_ray.cluster.resources import Resources as Resources
from rldf_ray.cluster.resources import check_engine_nodes
from rldf_ray.plan import EnginesSection, Plan
from rldf_ray.plan.speaking import SpeakingPlan

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
# vLLM's attention on CPU; on GPUs its kernels have blocks of their own and say so.
CPU_BLOCK = 32


@dataclass(frozen=True, kw_only=True)
class Placement:
    """What Ray reserves, and the threads a CPU process computes with.

    Attributes:
        device: "cuda" or "cpu".
        engine_cpus, engine_gpus: reserved for each vLLM engine.
        worker_cpus, worker_gpus: reserved for each training worker.
        threads: torch threads of a CPU training worker.
        engine_threads: torch threads of a CPU engine; None lets Ray say, by what it reserves.
        home: the resource only one node has, where everything has to be on that node.
        engine_homes: that of each engine, where engines are on other nodes.
    """

    device: str
    engines: int
    engine_cpus: float
    engine_gpus: float
    workers: int
    worker_cpus: float
    worker_gpus: float
    threads: int
    home: str | None = None
    engine_homes: tuple[str, ...] = ()
    engine_threads: int | None = None

    def pinned(self) -> dict[str, float]:
        """What a worker asks for besides CPUs and GPUs, to be on the home node."""
        return _a_bit_of(self.home)

    def engine_pinned(self, number: int) -> dict[str, float]:
        """What engine `number`, from 0, asks for besides CPUs and GPUs."""
        return _a_bit_of(self.engine_homes[number] if self.engine_homes else self.home)

    def describe(self) -> str:
        """The decision in one line."""
        if not self.engines and not self.workers:
            return "no engine and no worker: nothing is computed here"
        where = "GPUs" if self.device == "cuda" else "CPU"
        return (
            f"{where}: {self.engines} engine(s) with {self.engine_cpus:g} CPU and "
            f"{self.engine_gpus:g} GPU each, {self.workers} training worker(s) with "
            f"{self.worker_cpus:g} CPU and {self.worker_gpus:g} GPU each, {self.threads} threads"
        )


ELSEWHERE = Placement(
    device="cpu",
    engines=0,
    engine_cpus=0,
    engine_gpus=0,
    workers=0,
    worker_cpus=0,
    worker_gpus=0,
    threads=1,
)
"""Where nothing is computed here: endpoints answer."""


def _a_bit_of(home: str | None) -> dict[str, float]:
    """So little of a node's own resource that all who have to be there find some."""
    return {home: 0.001} if home is not None else {}


def place(plan: Plan, resources: Resources) -> Placement:
    """Decide for `plan`.

    Raises:
        PlacementError: PPO needs its engines and workers at once, and there is no room for both; an
            engine finds no node; or engines on CPU are asked for what they do not have.
    """
    engines, workers = plan.engines.count, plan.train.workers
    # Debates need the engines of every model that speaks, PPO those of the policy and its workers.
    speaking = engines * len([speaker for speaker in plan.speakers() if speaker.on_engines])
    # A trained referee takes the place of a worker while the engines speak.
    judging = int(plan.referee.fitted)
    size = plan.engines.tensor_parallel
    if resources.gpus == 1 and speaking <= 1 and engines == workers == size == 1:
        return _on_one_gpu(plan, resources)
    needed_cpus = engines + workers if _at_once(plan) else max(engines, workers)
    if resources.gpus >= 1:
        training = (engines * size, workers)
        needed = max(
            sum(training) if _at_once(plan) else max(training),
            speaking * size + judging,
        )
        if needed > resources.gpus:
            raise PlacementError(
                f"the plan needs {needed} GPUs ({engines} engines x {size} "
                f"{'+' if _at_once(plan) else 'or'} {workers} workers to train, {speaking} engines "
                f"x {size} + {judging} referee to debate), Ray reports "
                f"{resources.gpus:g}: lower engines.count, engines.tensor_parallel or "
                "train.workers, or add GPUs"
            )
        if needed_cpus > resources.cpus:
            raise PlacementError(_too_few_cpus(plan, resources))
        # Those of the debates, and later those of the policy alone.
        who = "the debates need" if speaking > engines else "the plan needs"
        check_engine_nodes(max(speaking, engines), size, resources.nodes, who)
        return Placement(
            device="cuda",
            engines=engines,
            engine_cpus=1,
            engine_gpus=size,
            workers=workers,
            worker_cpus=1,
            worker_gpus=1,
            threads=1,
        )
    if needed_cpus > resources.cpus:
        raise PlacementError(_too_few_cpus(plan, resources))
    _check_cpu_engines(plan.engines)
    share = resources.cpus / max(needed_cpus, speaking + judging)
    # Engines and workers take turns, so each computes with the whole of its share of cores.
    threads, engine_threads = (
        max(1, int(min(resources.cpus // processes, resources.node_cpus)))
        for processes in (workers, engines)
    )
    return Placement(
        device="cpu",
        engines=engines,
        engine_cpus=min(1, share),
        engine_gpus=0,
        workers=workers,
        worker_cpus=min(1, share),
        worker_gpus=0,
        threads=threads,
        engine_threads=engine_threads,
    )


def _at_once(plan: Plan) -> bool:
    """Whether engines answer while workers train."""
    return "ppo" in plan.train.after


def place_speaking(plan: SpeakingPlan, resources: Resources, together: bool) -> Placement:
    """Decide for a plan whose models speak and are not trained.

    Args:
        together: all local models are loaded at once; else one at a time.

    Raises:
        PlacementError: there are not GPUs, or CPUs, enough.
    """
    section = plan.engines
    models = len([speaker for speaker in plan.speakers() if speaker.on_engines])
    engines = section.count * (models if together else min(1, models))
    if resources.gpus >= 1:
        needed = engines * section.tensor_parallel
        if needed > resources.gpus:
            raise PlacementError(
                f"the models need {needed} GPUs ({engines} engines x {section.tensor_parallel}), "
                f"Ray reports {resources.gpus:g}: lower engines.count or engines.tensor_parallel, "
                "set take_turns=true, or add GPUs"
            )
        check_engine_nodes(engines, section.tensor_parallel, resources.nodes, "the models need")
    elif engines:
        _check_cpu_engines(section)
    cpus = max(1, engines)
    return Placement(
        device="cuda" if resources.gpus >= 1 else "cpu",
        engines=section.count,
        engine_cpus=1 if resources.gpus >= 1 else min(1, resources.cpus / cpus),
        engine_gpus=section.tensor_parallel if resources.gpus >= 1 else 0,
        workers=0,
        worker_cpus=0,
        worker_gpus=0,
        threads=1,
        engine_threads=None
        if resources.gpus >= 1
        else max(1, int(min(resources.cpus // section.count, resources.node_cpus))),
    )


def _check_cpu_engines(engines: EnginesSection) -> None:
    """Engines that could not start on a CPU are refused before they are tried."""
    size = engines.block_size
    if size is not None and size % CPU_BLOCK:
        raise PlacementError(
            f"engines.block_size={size}: on CPU a block's tokens are a multiple of {CPU_BLOCK}; "
            f"set {max(1, size // CPU_BLOCK) * CPU_BLOCK}, or null for the engine's own choice"
        )


def _on_one_gpu(plan: Plan, resources: Resources) -> Placement:
    """Engine and worker on the same device; the engine takes no more of it than it is allowed.

    They have the device in turn where neither PPO nor a fitted referee needs both.
    """
    share = plan.engines.gpu_memory_utilization
    if _at_once(plan) and share > 0.5:
        raise PlacementError(
            f"there is one GPU, and the engine takes {share:g} of it: set "
            "engines.gpu_memory_utilization to 0.5 or less, so that PPO's worker fits beside it, "
            "or add a GPU"
        )
    if resources.cpus < (2 if _at_once(plan) else 1):
        raise PlacementError(_too_few_cpus(plan, resources))
    shared = _at_once(plan) or plan.referee.fitted
    return Placement(
        device="cuda",
        engines=1,
        engine_cpus=min(1, resources.cpus / 2),
        engine_gpus=share if shared else 1,
        workers=1,
        worker_cpus=min(1, resources.cpus / 2),
        worker_gpus=round(1 - share, 4) if shared else 1,
        threads=1,
    )


def _too_few_cpus(plan: Plan, resources: Resources) -> str:
    engines, workers = plan.engines.count, plan.train.workers
    needed = engines + workers if _at_once(plan) else max(engines, workers)
    return (
        f"the plan needs {needed} CPUs (engines.count={engines} {'+' if _at_once(plan) else 'or'} "
        f"train.workers={workers}), Ray reports {resources.cpus:g}: lower them"
    )
