"""Whether what trains the policy fits into memory, where it is trained on CPUs."""

from __future__ import annotations

from dataclasses import dataclass

from rldf_ray.cluster.node_shares import on_one_node
from rldf_ray.cluster.placement import BYTES, PlacementError, Resources, place
from rldf_ray.cluster.worker_memory import ppo_memory, sft_memory
from rldf_ray.plan import Plan

LIBRARIES_GIB = 1.5
"""Of the driver and Ray; each worker has `WORKER_GIB` of its own, and each engine `ENGINE_GIB`."""
WORKER_GIB = 0.8
ENGINE_GIB = 1.2


@dataclass(frozen=True, kw_only=True)
class Need:
    """What a stage's workers take together, and the engines beside them, GiB (an estimate)."""

    stage: str
    training: float
    engines: float = 0.0

    @property
    def gib(self) -> float:
        return self.training + self.engines


def memory_needed_gib(plan: Plan, parameters: float, stored: str | None = None) -> float:
    """Peak resident memory of the hungriest stage, GiB, over all processes (an estimate).

    Args:
        parameters: of the plan's model.
        stored: their precision in its files; None where it is not known.
    """
    return max(need.gib for need in _needs(plan, parameters, stored))


def _needs(plan: Plan, parameters: float, stored: str | None) -> list[Need]:
    """Of the stages that train: on CPUs what ZeRO would offload stays in the same memory."""
    train = plan.train
    base = LIBRARIES_GIB + WORKER_GIB * train.workers
    alone = sft_memory(train, offload=False).together(train.workers) * parameters / 2**30
    if "ppo" not in train.after:
        return [Need(stage=train.last.upper(), training=alone + base)]
    ppo = ppo_memory(plan, stored, offload=False).together(train.workers) * parameters / 2**30
    engines = plan.engines.count * engine_gib(plan, parameters)
    return [
        Need(stage="PPO", training=ppo + base, engines=engines),
        Need(stage="SFT", training=alone + base),
    ]


def engine_gib(plan: Plan, parameters: float) -> float:
    """What one of PPO's engines takes, GiB; its weights are of `ppo.dtype`, as they are trained."""
    weights = parameters * BYTES[plan.ppo.dtype] / 2**30
    return weights + plan.engines.kv_cache_gib + ENGINE_GIB


def check_memory(
    plan: Plan, parameters: float, resources: Resources, stored: str | None = None
) -> str:
    """Training the policy on CPUs fits into memory: PPO, and any single worker, into one node's.

    Args:
        parameters, stored: as for `memory_needed_gib`.

    Raises:
        PlacementError: it does not; says what to change.
    """
    rooms = [_room(need, plan, resources) for need in _needs(plan, parameters, stored)]
    stage, needed, there, where = max(rooms, key=lambda room: room[1] - room[2])
    amounts = f"{stage} needs about {needed:.1f} GiB"
    if resources.gpus < 1 and needed > there:
        raise PlacementError(
            f"{amounts} of memory, there are {there:.1f}{where}: {_changes(plan, stage)}, or add "
            "memory"
        )
    if there == float("inf"):
        return f"{amounts}; what the nodes to come have is not known"
    return f"{amounts}, {there:.1f} are free{where}"


def _changes(plan: Plan, stage: str) -> str:
    """What lowers a stage's need."""
    train = plan.train
    changes = ["choose a smaller model"]
    if stage == "PPO":
        changes.append("lower engines.kv_cache_gib or engines.count")
    if train.workers > 1:
        changes.append("lower train.workers")
    if train.workers > 1 and train.zero_stage < 3 and not train.lora.rank:
        changes.append("raise train.zero_stage")
    if not train.lora.rank:
        changes.append("set train.lora.rank=16")
    return ", ".join(changes)


def _room(need: Need, plan: Plan, resources: Resources) -> tuple[str, float, float, str]:
    """A stage's name, what it needs where, GiB, what there is, GiB, and which that is."""
    together = need.stage == "PPO"
    if len(resources.nodes) < 2 or not (together or plan.train.workers == 1):
        return need.stage, need.gib, resources.memory_gib, ""
    largest = max(node.memory_gib for node in resources.nodes)
    apart = together and not on_one_node(place(plan, resources), resources.nodes)
    needed = need.training if apart else need.gib
    return need.stage, needed, largest, " on the largest node"
