"""Workers of several nodes meet at the address by which their nodes are reached."""

from __future__ import annotations

import os
from importlib import import_module

import psutil
import pytest

from rldf_ray.cluster.address import LOCAL
from rldf_ray.cluster.interface import GLOO_INTERFACE, HOOK, meet_at_nodes_address
from rldf_ray.cluster.ray_cluster import _worker_settings


def test_workers_of_a_cluster_that_was_joined_are_told_where_to_meet() -> None:
    module, _, function = HOOK.rpartition(".")
    assert getattr(import_module(module), function) is meet_at_nodes_address
    assert _worker_settings("10.77.0.11:6379")["worker_process_setup_hook"] == HOOK
    assert "worker_process_setup_hook" not in _worker_settings(LOCAL)


@pytest.mark.parametrize("named", [None, "eth7"])
def test_gloo_listens_where_rays_node_does(
    monkeypatch: pytest.MonkeyPatch, named: str | None
) -> None:
    name, addresses = next(
        (name, found) for name, found in psutil.net_if_addrs().items() if name != "lo"
    )
    monkeypatch.setattr("ray.util.get_node_ip_address", lambda: addresses[0].address)
    monkeypatch.delenv(GLOO_INTERFACE, raising=False)
    if named is not None:
        monkeypatch.setenv(GLOO_INTERFACE, named)
    meet_at_nodes_address()
    assert os.environ[GLOO_INTERFACE] == (named or name)
    monkeypatch.delenv(GLOO_INTERFACE)
