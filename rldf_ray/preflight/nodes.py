"""Machines written down, and where a plan's engines and workers would go on them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rldf_ray.cluster.placement import BYTES, Placement, PlacementError, Resources, place
from rldf_ray.plan import Plan

SYNTAX = (
    "groups of equal nodes with commas between them, each COUNTx and then any of `N gpus`, `N GB` "
    "(memory of each GPU), `N cpus`, `N GB ram`: '1x 8 cpus, 2x 8 gpus 80 GB 96 cpus 1000 GB ram'"
)
_UNKNOWN = float("inf")
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*(gpus?|cpus?|gb\s*ram|gb)\b[\s+]*", re.IGNORECASE)


@dataclass(frozen=True)
class Node:
    """One machine; what was not said is taken to be enough. Memory in GB (10^9 bytes)."""

    gpus: int = 0
    gpu_gb: float = _UNKNOWN
    cpus: float = _UNKNOWN
    ram_gb: float = _UNKNOWN


@dataclass(frozen=True)
class Arrangement:
    """Where everything goes: a line a node, and the memory that decides."""

    nodes: tuple[str, ...]
    memory: str


def parse_nodes(text: str) -> list[Node]:
    """Nodes from `SYNTAX`.

    Raises:
        PlacementError: what is wrong, and how nodes are written.
    """
    return [node for group in text.split(",") for node in _group(group.strip())]


def _group(group: str) -> list[Node]:
    counted = re.fullmatch(r"(\d+)\s*x\s*(.*)", group, re.IGNORECASE)
    if counted is None or _AMOUNT.sub("", counted[2]).strip() or not int(counted[1]):
        raise PlacementError(f"--nodes {group!r}: expected {SYNTAX}")
    amounts: dict[str, float] = {}
    for number, unit in _AMOUNT.findall(counted[2]):
        name = "".join(unit.lower().split()).removesuffix("s")
        if name in amounts:
            raise PlacementError(f"--nodes {group!r}: {unit} is given twice")
        amounts[name] = float(number)
    node = Node(
        int(amounts.get("gpu", 0)),
        amounts.get("gb", _UNKNOWN),
        amounts.get("cpu", _UNKNOWN),
        amounts.get("gbram", _UNKNOWN),
    )
    return [node] * int(counted[1])


def arrange(
    plan: Plan, nodes: Sequence[Node], parameters: float, others: Sequence[float] = ()
) -> Arrangement:
    """Place a plan on nodes that need not exist.

    Args:
        parameters: of the plan's model.
        others: parameters of the other models that speak on engines.

    Raises:
        PlacementError: what is missing where.
    """
    gpus = sum(node.gpus for node in nodes)
    ram = sum(node.ram_gb for node in nodes) * 1e9 / 2**30
    cpus = [node.cpus for node in nodes]
    placement = place(plan, Resources(sum(cpus), gpus, ram, max(cpus)))
    if not gpus:
        return Arrangement((f"{len(nodes)} node(s) without GPU: {placement.describe()}",), "")
    _check_gpu_memory(plan, nodes, parameters, others)
    ppo = _ppo(plan, nodes, placement)
    debating = _debating(plan, nodes, ppo)
    lines = []
    for number, (node, engines) in enumerate(zip(nodes, debating, strict=True), start=1):
        parts = _ppo_parts(placement, ppo[number - 1])
        if engines:
            parts.append(f"{engines} of the debates' {sum(debating)} engine(s)")
        lines.append(f"node {number} ({_said(node)}): {'; '.join(parts) or 'nothing'}")
    worker, engine = gpu_memory_gb(plan, parameters)
    memory = (
        f"{parameters / 1e9:.3g} billion parameters: a training worker holds {worker:.0f} GB "
        f"before activations, each GPU of an engine {engine:.0f} GB of weights before its KV cache"
    )
    for other in others:
        memory += (
            f"; {other / 1e9:.3g} billion of another speaker: {_engine_gb(plan, other):.0f} GB"
        )
    return Arrangement(tuple(lines), memory)


@dataclass(frozen=True)
class _Share:
    """What a node has of PPO."""

    engines: int = 0
    workers: int = 0


def _ppo(plan: Plan, nodes: Sequence[Node], placement: Placement) -> list[_Share]:
    """PPO's workers on one node, its engines beside them or, where that has no room, elsewhere."""

    def room(node: Node, share: _Share) -> bool:
        return (
            node.gpus
            >= share.engines * placement.engine_gpus + share.workers * placement.worker_gpus
            and node.cpus
            >= share.engines * placement.engine_cpus + share.workers * placement.worker_cpus
        )

    def engines_beside(node: Node, workers: int) -> int:
        fit = [n for n in range(placement.engines + 1) if room(node, _Share(n, workers))]
        return max(fit, default=-1)

    # The node that holds most of it has the workers.
    beside = [engines_beside(node, placement.workers) for node in nodes]
    home = max(range(len(nodes)), key=beside.__getitem__)
    shares, left = [_Share()] * len(nodes), placement.engines
    for index in sorted(range(len(nodes)), key=lambda index: index != home):
        workers = placement.workers if index == home else 0
        engines = min(left, engines_beside(nodes[index], workers))
        shares[index] = _Share(engines, workers)
        left -= engines
    if beside[home] < 0 or left:
        raise PlacementError(
            f"PPO's {placement.workers} worker(s) have to be on one node, and its "
            f"{placement.engines} engine(s) of {plan.engines.tensor_parallel} GPU(s) each on one; "
            f"the largest node has {max(node.gpus for node in nodes)} GPUs: lower engines.count, "
            "engines.tensor_parallel or train.workers, or take larger nodes"
        )
    return shares


def _ppo_parts(placement: Placement, share: _Share) -> list[str]:
    """What a node has of PPO, in words."""
    engines = f"{share.engines} engine(s) of {placement.engine_gpus:g} GPU"
    workers = f"{share.workers} training worker(s) of {placement.worker_gpus:g} GPU"
    said = [part for part, number in ((engines, share.engines), (workers, share.workers)) if number]
    return [f"PPO's {' and '.join(said)}"] if said else []


def _debating(plan: Plan, nodes: Sequence[Node], ppo: Sequence[_Share]) -> list[int]:
    """How many of the debates' engines fit on each node, PPO's filled first; each is on one node.

    PPO begins when the debates have ended, so its nodes are free for them.
    """
    speaking = [speaker for speaker in plan.speakers() if speaker.local and speaker.on_engines]
    left = wanted = plan.engines.count * len(speaking)
    counts = [0] * len(nodes)
    for index in sorted(range(len(nodes)), key=lambda i: ppo[i] == _Share()):
        counts[index] = min(left, nodes[index].gpus // plan.engines.tensor_parallel)
        left -= counts[index]
    if left:
        raise PlacementError(
            f"the debates need {wanted} engines ({plan.engines.count} each of "
            f"{len(speaking)} speakers) of {plan.engines.tensor_parallel} GPUs on one node, and "
            f"there is room for {wanted - left}: lower engines.count or engines.tensor_parallel, "
            "or add a node"
        )
    return counts


def _engine_gb(plan: Plan, parameters: float) -> float:
    """GB of weights on each GPU of an engine."""
    return BYTES[plan.engines.dtype] * parameters / plan.engines.tensor_parallel / 1e9


def gpu_memory_gb(plan: Plan, parameters: float) -> tuple[float, float]:
    """GB that PPO takes on a worker's GPU before activations, and weights on an engine's GPU.

    A worker has its part of actor and critic, if there is one (weights, gradients, Adam's moments
    and, below float32, a float32 copy of the weights), which ZeRO 1, 2, 3 split over all workers
    one after the other, and reference and reward model whole. Offload keeps the optimizer's part
    in RAM. With adapters all four share one frozen base; what the adapters take is small beside it.
    """
    train, size = plan.train, BYTES[plan.ppo.dtype]
    engine = _engine_gb(plan, parameters)
    if train.lora.rank:
        return size * parameters / 1e9, engine
    optimizer = 0 if train.offload and train.zero_stage >= 2 else (8 if size == 4 else 12)
    parts = (
        (optimizer, train.zero_stage >= 1),
        (size, train.zero_stage >= 2),
        (size, train.zero_stage == 3),
    )
    trained = sum(part / (train.workers if split else 1) for part, split in parts)
    return (plan.ppo.models_trained * trained + 2 * size) * parameters / 1e9, engine


def _check_gpu_memory(
    plan: Plan, nodes: Sequence[Node], parameters: float, others: Sequence[float]
) -> None:
    smallest = min(node.gpu_gb for node in nodes if node.gpus)
    apart = sum(node.gpus for node in nodes) > 1
    share = plan.engines.gpu_memory_utilization
    worker, _ = gpu_memory_gb(plan, parameters)
    engine = _engine_gb(plan, max(parameters, *others, 0.0))
    room = smallest if apart else smallest * (1 - share)
    if worker > room:
        raise PlacementError(
            f"a training worker needs {worker:.0f} GB of GPU memory before activations, and has "
            f"{room:.0f}: raise train.zero_stage or train.workers, set train.offload=true or "
            "train.lora.rank=16, choose a smaller model or larger GPUs"
        )
    if engine > smallest * share:
        raise PlacementError(
            f"an engine needs {engine:.0f} GB on each GPU for the weights alone, and may take "
            f"{smallest * share:.0f} (engines.gpu_memory_utilization={share:g}): raise "
            "engines.tensor_parallel, choose a smaller model or larger GPUs"
        )


def _said(node: Node) -> str:
    amounts = (
        (node.gpus or _UNKNOWN, "GPUs"),
        (node.gpu_gb, "GB each"),
        (node.cpus, "CPUs"),
        (node.ram_gb, "GB RAM"),
    )
    said = [f"{number:g} {unit}" for number, unit in amounts if number != _UNKNOWN]
    return ", ".join(said) or "nothing said"
