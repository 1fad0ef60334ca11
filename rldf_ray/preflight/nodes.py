"""Machines written down, and where a plan's engines and workers would go on them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rldf_ray.cluster.memory_room import check_memory
from rldf_ray.cluster.node_shares import NodeShare, ppo_shares, worker_shares
from rldf_ray.cluster.placement import (
    BYTES,
    NodeSize,
    Placement,
    PlacementError,
    Resources,
    place,
)
from rldf_ray.cluster.worker_memory import ppo_memory, sft_memory
from rldf_ray.plan import Plan

SYNTAX = (
    "groups of equal nodes with commas between them, each COUNTx and then any of `N gpus`, `N GB` "
    "(memory of each GPU), `N cpus`, `N GB ram`: '1x 8 cpus, 2x 8 gpus 80 GB 96 cpus 1000 GB ram'"
)
_UNKNOWN = float("inf")
# Of those, GiB.
GB = 1e9 / 2**30
MOST_NODES = 10_000
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
    counted = re.fullmatch(r"(\d{1,9})\s*x\s*(.*)", group, re.IGNORECASE)
    if (
        counted is None
        or _AMOUNT.sub("", counted[2]).strip()
        or int(counted[1]) not in range(1, MOST_NODES + 1)
    ):
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
    plan: Plan,
    nodes: Sequence[Node],
    parameters: float,
    others: Sequence[float] = (),
    stored: str | None = None,
) -> Arrangement:
    """Place a plan on nodes that need not exist.

    Args:
        parameters: of the plan's model.
        others: parameters of the other models that speak on engines.
        stored: precision of the plan's model in its files; None where it is not known.

    Raises:
        PlacementError: what is missing where.
    """
    gpus = sum(node.gpus for node in nodes)
    ram = sum(node.ram_gb for node in nodes) * GB
    if not gpus and _UNKNOWN in [node.cpus for node in nodes]:
        raise PlacementError(
            "--nodes: nodes without GPUs compute on their CPUs; say how many each has, as in "
            "'1x 8 cpus 64 GB ram'"
        )
    sizes = [NodeSize(node.cpus, node.gpus, node.ram_gb * GB) for node in nodes]
    resources = Resources(sum(node.cpus for node in nodes), gpus, ram, tuple(sizes))
    placement = place(plan, resources)
    with_ppo = "ppo" in plan.train.after
    shares = (ppo_shares if with_ppo else worker_shares)(placement, sizes)
    if not gpus:
        needed = check_memory(plan, parameters, resources, stored) if ram != _UNKNOWN else ""
        line = f"{len(nodes)} node(s) without GPU: {placement.describe()}"
        return Arrangement((line,), needed)
    _check_gpu_memory(plan, nodes, placement, parameters, others)
    debating = _debating(plan, sizes, shares)
    lines = []
    for number, (node, engines) in enumerate(zip(nodes, debating, strict=True), start=1):
        parts = _parts(plan, placement, shares[number - 1])
        if engines:
            parts.append(f"{engines} of the debates' {sum(debating)} engine(s)")
        lines.append(f"node {number} ({_said(node)}): {'; '.join(parts) or 'nothing'}")
    worker, engine = gpu_memory_gb(plan, parameters)
    memory = (
        f"{parameters / 1e9:.3g} billion parameters: a training worker holds {worker:.0f} GB "
        f"before activations, each GPU of an engine {engine:.0f} GB of weights before its KV cache"
    )
    for other in others:
        weights = _engine_gb(plan, other, plan.engines.dtype)
        memory += f"; {other / 1e9:.3g} billion of another speaker: {weights:.0f} GB"
    return Arrangement(tuple(lines), memory)


def _parts(plan: Plan, placement: Placement, share: NodeShare) -> list[str]:
    """What a node has of the training, in words."""
    engines = f"{share.engines} engine(s) of {placement.engine_gpus:g} GPU"
    workers = f"{share.workers} training worker(s) of {placement.worker_gpus:g} GPU"
    said = [part for part, number in ((engines, share.engines), (workers, share.workers)) if number]
    whose = "PPO's " if "ppo" in plan.train.after else ""
    return [f"{whose}{' and '.join(said)}"] if said else []


def _debating(plan: Plan, sizes: Sequence[NodeSize], shares: Sequence[NodeShare]) -> list[int]:
    """How many of the debates' engines each node has, those of training filled first.

    Training begins when the debates have ended, so its nodes are free.
    """
    speaking = [speaker for speaker in plan.speakers() if speaker.local and speaker.on_engines]
    left = plan.engines.count * len(speaking)
    counts = [0] * len(sizes)
    for index in sorted(range(len(sizes)), key=lambda i: shares[i] == NodeShare()):
        counts[index] = min(left, sizes[index].engines(plan.engines.tensor_parallel))
        left -= counts[index]
    return counts


def _engine_gb(plan: Plan, parameters: float, dtype: str) -> float:
    """GB of weights on each GPU of an engine."""
    return BYTES[dtype] * parameters / plan.engines.tensor_parallel / 1e9


def gpu_memory_gb(plan: Plan, parameters: float) -> tuple[float, float]:
    """GB that training takes on a worker's GPU before activations, and weights on an engine's GPU.

    A worker's are of the hungriest stage (`cluster/worker_memory.py`); offload keeps the
    optimizer's part in RAM. An engine's weights are of `ppo.dtype` in PPO, and of `engines.dtype`
    in debates and evaluation.
    """
    train, with_ppo = plan.train, "ppo" in plan.train.after
    dtypes = {plan.engines.dtype, plan.ppo.dtype} if with_ppo else {plan.engines.dtype}
    engine = max(_engine_gb(plan, parameters, dtype) for dtype in dtypes)
    stages = [sft_memory(train, offload=train.offload)]
    if with_ppo:
        stages.append(ppo_memory(plan, None, offload=train.offload))
    return max(stage.whole for stage in stages) * parameters / 1e9, engine


def _check_gpu_memory(
    plan: Plan,
    nodes: Sequence[Node],
    placement: Placement,
    parameters: float,
    others: Sequence[float],
) -> None:
    smallest = min(node.gpu_gb for node in nodes if node.gpus)
    share = plan.engines.gpu_memory_utilization
    worker, engine = gpu_memory_gb(plan, parameters)
    for other in others:
        engine = max(engine, _engine_gb(plan, other, plan.engines.dtype))
    room = smallest * (placement.worker_gpus if "ppo" in plan.train.after else 1)
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
