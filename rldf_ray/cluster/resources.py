"""What a cluster has, node by node, and how many engines its nodes hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rldf_ray.errors import UserError


class PlacementError(UserError):
    """The plan does not fit; the message names the missing resource and the field to change."""


@dataclass(frozen=True)
class NodeSize:
    """What a node has, in use or not; it may be one that an autoscaler adds. Memory in GiB."""

    cpus: float
    gpus: float
    memory_gib: float = float("inf")

    def engines(self, gpus: int) -> int:
        """How many engines of so many GPUs it holds; each has a CPU, too."""
        return int(min(self.gpus // gpus, self.cpus))


@dataclass(frozen=True)
class Resources:
    """What Ray reports of the cluster: CPUs, GPUs, memory in GiB; its nodes where it has some."""

    cpus: float
    gpus: float
    memory_gib: float
    nodes: tuple[NodeSize, ...] = ()

    @property
    def node_cpus(self) -> float:
        """CPUs of the largest node."""
        # A head alone has none where nodes come and go: theirs are not known yet.
        return max((node.cpus for node in self.nodes), default=0.0) or float("inf")

    def engines(self, gpus: int) -> int:
        """How many engines of so many GPUs it holds at once, each on one node."""
        # Where nodes are not known, as if there were one.
        nodes = self.nodes or (NodeSize(float("inf"), self.gpus),)
        return sum(node.engines(gpus) for node in nodes)


def check_engine_nodes(wanted: int, gpus: int, nodes: Sequence[NodeSize], who: str) -> None:
    """Each of `wanted` engines finds its GPUs on one node; of nodes not known, nothing is said.

    Args:
        who: needs them, in words.

    Raises:
        PlacementError: they do not, however many GPUs the nodes have together.
    """
    held = sum(node.engines(gpus) for node in nodes)
    if nodes and held < wanted:
        largest = max(node.gpus for node in nodes)
        raise PlacementError(
            f"{who} {wanted} engine(s) of {gpus} GPUs and a CPU, each on one node, and there is "
            f"room for {held} (the largest node has {largest:g} GPUs): lower "
            "engines.tensor_parallel or engines.count, or take larger nodes or more"
        )
