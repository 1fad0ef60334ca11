"""The network interface by which a worker is reached from other nodes."""

from __future__ import annotations

import os

import psutil

GLOO_INTERFACE = "GLOO_SOCKET_IFNAME"
HOOK = "rldf_ray.cluster.interface.meet_at_nodes_address"


def meet_at_nodes_address() -> None:
    """Have gloo listen where Ray's node does, unless the environment names an interface.

    By itself it listens where the host's name leads to, which on many machines is loopback, and
    workers of other nodes are refused there. Ray calls it as a worker starts.
    """
    import ray.util

    address = ray.util.get_node_ip_address()
    for name, addresses in psutil.net_if_addrs().items():
        if any(one.address == address for one in addresses):
            os.environ.setdefault(GLOO_INTERFACE, name)
