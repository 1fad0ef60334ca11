"""Nodes of a cluster: which of them can hold PPO, before anything is done."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.cluster.node_shares import (
    check_ppo_nodes,
    on_one_node,
    ppo_shares,
    worker_shares,
)
from rldf_ray.cluster.placement import NodeSize, Placement, PlacementError

GPUS = Placement(
    device="cuda",
    engines=2,
    engine_cpus=1,
    engine_gpus=1,
    workers=6,
    worker_cpus=1,
    worker_gpus=1,
    threads=1,
)
CPUS = replace(GPUS, device="cpu", engines=1, engine_gpus=0, workers=1, worker_gpus=0)


def test_workers_that_no_node_holds_are_refused_however_much_there_is_together() -> None:
    with pytest.raises(PlacementError, match=r"6 worker\(s\) have to be on one node.* 4 GPU") as no:
        check_ppo_nodes(GPUS, [NodeSize(64, 4)] * 2)
    assert "train.workers" in str(no.value)
    check_ppo_nodes(GPUS, [NodeSize(64, 4), NodeSize(64, 6)])
    # Nobody knows the nodes.
    check_ppo_nodes(GPUS, [])


def test_hosts_of_one_core_and_a_head_of_none_have_engine_and_worker_apart() -> None:
    nodes = [NodeSize(0, 0), NodeSize(1, 0), NodeSize(1, 0)]
    check_ppo_nodes(CPUS, nodes)
    assert not on_one_node(CPUS, nodes)
    assert on_one_node(CPUS, [*nodes, NodeSize(2, 0)])


def test_a_core_in_thirds_is_a_whole_one() -> None:
    thirds = replace(CPUS, engines=2, engine_cpus=1 / 3, worker_cpus=1 / 3 + 1e-9)
    assert on_one_node(thirds, [NodeSize(1, 0)])


@given(
    engines=st.integers(1, 4),
    workers=st.integers(1, 6),
    size=st.integers(1, 3),
    gpus=st.lists(st.integers(0, 8), min_size=1, max_size=5),
)
def test_shares_fit_their_nodes_and_are_all_there(
    engines: int, workers: int, size: int, gpus: list[int]
) -> None:
    placement = replace(GPUS, engines=engines, engine_gpus=size, workers=workers)
    nodes = [NodeSize(float("inf"), n) for n in gpus]
    try:
        shares = ppo_shares(placement, nodes)
    except PlacementError:
        assert not on_one_node(placement, nodes)
        return
    assert sum(share.engines for share in shares) == engines
    assert max(share.workers for share in shares) == workers
    assert all(s.engines * size + s.workers <= n for s, n in zip(shares, gpus, strict=True))
    if sum(gpus) >= workers:
        assert sum(share.workers for share in worker_shares(placement, nodes)) == workers
