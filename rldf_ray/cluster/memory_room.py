"""Whether what trains the policy fits into memory, where it is trained on CPUs."""

from __future__ import annotations

from rldf_ray.cluster.node_shares import on_one_node
from rldf_ray.cluster.placement import BYTES, PlacementError, Resources, place
from rldf_ray.plan import Plan


def memory_needed_gib(plan: Plan, parameters: float) -> float:
    """Peak resident memory of the hungriest stage, GiB, over all processes (an estimate).

    Without PPO that is the policy's training alone, with neither reference nor engines. In PPO
    actor and critic, if there is one, take weights, gradients and two Adam moments (16 bytes a
    parameter in either precision, as bfloat16 keeps float32 copies); reference and reward model
    weights alone; with adapters all four share one set of weights, and the adapters' own are
    small beside it. Engines take weights and KV cache; each process a base of libraries.
    """
    base = 1.5 + 0.8 * plan.train.workers
    if "ppo" not in plan.train.after:
        each = BYTES[plan.train.dtype] if plan.train.lora.rank else 16
        return parameters * each / 2**30 + base
    size = BYTES[plan.ppo.dtype]
    if plan.train.lora.rank:
        trained, frozen = 0.0, parameters * size
    else:
        trained = plan.ppo.models_trained * parameters * 16
        frozen = 2 * parameters * size
    return (trained + frozen) / 2**30 + plan.engines.count * engine_gib(plan, parameters) + base


def engine_gib(plan: Plan, parameters: float) -> float:
    """What one of PPO's engines takes, GiB; its weights are of `ppo.dtype`, as they are trained."""
    return parameters * BYTES[plan.ppo.dtype] / 2**30 + plan.engines.kv_cache_gib + 1.2


def hungriest(plan: Plan) -> str:
    """The stage that needs most memory."""
    return "PPO" if "ppo" in plan.train.after else plan.train.last.upper()


def check_memory(plan: Plan, parameters: float, resources: Resources) -> str:
    """Training the policy on CPUs fits into memory: PPO, and any single worker, into one node's.

    Raises:
        PlacementError: it does not; says what to change.
    """
    needed, there, where = memory_needed_gib(plan, parameters), resources.memory_gib, ""
    with_ppo = "ppo" in plan.train.after
    if len(resources.nodes) > 1 and (with_ppo or plan.train.workers == 1):
        there, where = max(node.memory_gib for node in resources.nodes), " on the largest node"
        if with_ppo and not on_one_node(place(plan, resources), resources.nodes):
            needed -= plan.engines.count * engine_gib(plan, parameters)
    if resources.gpus < 1 and needed > there:
        lower = (
            "lower engines.kv_cache_gib or engines.count" if with_ppo else "set train.lora.rank=16"
        )
        raise PlacementError(
            f"{hungriest(plan)} needs about {needed:.1f} GiB of memory, there are "
            f"{there:.1f}{where}: choose a smaller model, {lower}, or add memory"
        )
    return f"{hungriest(plan)} needs about {needed:.1f} GiB, {there:.1f} are free{where}"
