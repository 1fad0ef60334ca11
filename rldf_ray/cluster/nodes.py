"""The nodes of the cluster that this process is connected to, and those where PPO goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rldf_ray.cluster.autoscaler import Scaling, scaling_of
from rldf_ray.cluster.node_shares import on_one_node
from rldf_ray.cluster.placement import NodeSize, Placement, PlacementError, Resources

# A cloud's node has to be allocated, started and set up.
NODE_DEADLINE_S = 1800.0
# Of nodes of one kind that an autoscaler may add without end.
MOST_OF_A_KIND = 64
HEAD = "node:__internal_head__"


def cluster_resources() -> Resources:
    """What the nodes have, or will have: an autoscaler adds nodes when work waits for them."""
    import ray

    reported: Mapping[str, float] = ray.cluster_resources()
    coming = _to_come(_here())
    return Resources(
        cpus=reported.get("CPU", 0.0) + sum(node.cpus for node in coming),
        gpus=reported.get("GPU", 0.0) + sum(node.gpus for node in coming),
        memory_gib=_memory_gib(reported) + sum(node.memory_gib for node in coming),
        nodes=nodes(),
    )


def for_ppo(placement: Placement) -> Placement:
    """`placement` with PPO's workers on one node, which an autoscaler may have to add.

    Its engines are beside them, where weights go through memory, if any node can hold both; else
    each is where there is room, and is sent the weights.

    Raises:
        PlacementError: there has not been room for `NODE_DEADLINE_S`.
    """
    import ray
    from ray.util.placement_group import (
        placement_group,
        placement_group_table,
        remove_placement_group,
    )

    engine = {"CPU": placement.engine_cpus, "GPU": placement.engine_gpus}
    workers = {
        "CPU": placement.workers * placement.worker_cpus,
        "GPU": placement.workers * placement.worker_gpus,
    }
    both = {name: workers[name] + placement.engines * engine[name] for name in workers}
    apart = not on_one_node(placement, nodes())
    bundles = [workers, *[engine] * placement.engines] if apart else [both]
    asked = [{name: n for name, n in bundle.items() if n} for bundle in bundles]
    group = placement_group(asked, strategy="PACK")
    try:
        if not group.wait(NODE_DEADLINE_S):
            raise PlacementError(
                f"PPO needs a node with {workers['CPU']:g} CPUs and {workers['GPU']:g} GPUs for "
                f"its {placement.workers} worker(s), and {engine['CPU']:g} CPUs and "
                f"{engine['GPU']:g} GPUs of a node for each of its {placement.engines} "
                f"engine(s), {'on any nodes' if apart else 'all on one node'}; for "
                f"{NODE_DEADLINE_S:g} s there was no room: lower engines.count or train.workers, "
                "or add a larger node"
            )
        node_of: Mapping[int, str] = placement_group_table(group)["bundles_to_node_id"]
    finally:
        remove_placement_group(group)
    addresses = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes()}
    home, *others = (f"node:{addresses[node_of[number]]}" for number in range(len(bundles)))
    return replace(placement, home=home, engine_homes=tuple(others))


def nodes() -> tuple[NodeSize, ...]:
    """The nodes that there are, and those that an autoscaler may add."""
    here = _here()
    return (*map(_size, here), *_to_come(here))


def _here() -> list[Mapping[str, float]]:
    """What each node has, by Ray's names of resources."""
    import ray

    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def _to_come(here: Sequence[Mapping[str, float]]) -> list[NodeSize]:
    import ray

    return yet_to_come(scaling_of(ray.get_runtime_context().gcs_address), here)


def yet_to_come(scaling: Scaling, here: Sequence[Mapping[str, float]]) -> list[NodeSize]:
    """The nodes of an autoscaler's kinds that are not up, as many as can make a difference.

    Ray does not say of what kind a node is: each is taken for one of the first kind with its CPUs
    and GPUs that may have one more, but for the head, which is of none. Where not all kinds can
    have their most at once, it is those with most GPUs that come: a plan places engines there.
    """
    workers = [node for node in here if HEAD not in node]
    up = Counter(map(_cpus_and_gpus, workers))
    coming = []
    for kind in scaling.kinds:
        size = _cpus_and_gpus(kind.resources)
        taken = min(kind.most, up[size])
        up[size] -= taken
        coming += [_size(kind.resources)] * min(kind.most - taken, MOST_OF_A_KIND)
    left = max(0, scaling.most - len(workers))
    if len(coming) > left:
        coming.sort(key=lambda node: (node.gpus, node.cpus), reverse=True)
    return coming[:left]


def _cpus_and_gpus(resources: Mapping[str, float]) -> tuple[float, float]:
    return float(resources.get("CPU", 0.0)), float(resources.get("GPU", 0.0))


def _size(resources: Mapping[str, float]) -> NodeSize:
    return NodeSize(
        cpus=resources.get("CPU", 0.0),
        gpus=resources.get("GPU", 0.0),
        memory_gib=_memory_gib(resources) or float("inf"),
    )


def _memory_gib(resources: Mapping[str, float]) -> float:
    return sum(resources.get(name, 0.0) for name in ("memory", "object_store_memory")) / 2**30
