"""Which node has what of training: PPO's workers are on one node, its engines there or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rldf_ray.cluster.placement import NodeSize, Placement, PlacementError

# Ray counts in ten-thousandths; a share of CPUs may be a third.
ROUNDING = 1e-4


@dataclass(frozen=True)
class NodeShare:
    """What a node has of training."""

    engines: int = 0
    workers: int = 0


def ppo_shares(placement: Placement, nodes: Sequence[NodeSize]) -> list[NodeShare]:
    """The share of each node: the one that holds most of PPO has the workers.

    Raises:
        PlacementError: no node holds the workers, or an engine finds none.
    """
    beside = [_engines_beside(placement, node, placement.workers) for node in nodes]
    home = max(range(len(nodes)), key=beside.__getitem__)
    shares, left = [NodeShare()] * len(nodes), placement.engines
    for index in sorted(range(len(nodes)), key=lambda index: index != home):
        workers = placement.workers if index == home else 0
        engines = min(left, max(0, _engines_beside(placement, nodes[index], workers)))
        shares[index] = NodeShare(engines, workers)
        left -= engines
    if beside[home] < 0 or left:
        raise PlacementError(_too_small(placement, nodes))
    return shares


def worker_shares(placement: Placement, nodes: Sequence[NodeSize]) -> list[NodeShare]:
    """The workers alone, where engines have ended when they train: each may be on any node."""
    shares, left = [], placement.workers
    for node in nodes:
        counts = range(left + 1)
        workers = max(n for n in counts if _holds(placement, node, NodeShare(workers=n)))
        shares.append(NodeShare(workers=workers))
        left -= workers
    return shares


def on_one_node(placement: Placement, nodes: Sequence[NodeSize]) -> bool:
    """Whether a node holds PPO's workers and all of its engines."""
    whole = NodeShare(placement.engines, placement.workers)
    return any(_holds(placement, node, whole) for node in nodes)


def check_ppo_nodes(placement: Placement, nodes: Sequence[NodeSize]) -> None:
    """There are nodes for PPO's workers and engines; of nodes that are not known, nothing is said.

    Raises:
        PlacementError: they are too small, however much they have together.
    """
    if nodes:
        ppo_shares(placement, nodes)


def _engines_beside(placement: Placement, node: NodeSize, workers: int) -> int:
    """The most engines that a node holds beside so many workers; -1 where these have no room."""
    counts = range(placement.engines + 1)
    fit = [n for n in counts if _holds(placement, node, NodeShare(n, workers))]
    return max(fit, default=-1)


def _holds(placement: Placement, node: NodeSize, share: NodeShare) -> bool:
    gpus = share.engines * placement.engine_gpus + share.workers * placement.worker_gpus
    cpus = share.engines * placement.engine_cpus + share.workers * placement.worker_cpus
    return gpus <= node.gpus + ROUNDING and cpus <= node.cpus + ROUNDING


def _too_small(placement: Placement, nodes: Sequence[NodeSize]) -> str:
    return (
        f"PPO's {placement.workers} worker(s) have to be on one node, with "
        f"{_amount(placement.worker_cpus, placement.worker_gpus)} each, and its "
        f"{placement.engines} engine(s) each on one, with "
        f"{_amount(placement.engine_cpus, placement.engine_gpus)}; the largest node has "
        f"{_amount(max(n.cpus for n in nodes), max(n.gpus for n in nodes))}: lower engines.count, "
        "engines.tensor_parallel or train.workers, or take larger nodes"
    )


def _amount(cpus: float, gpus: float) -> str:
    known = cpus != float("inf")
    return " and ".join([f"{gpus:g} GPU(s)", *([f"{cpus:g} CPU(s)"] if known else [])])
