"""Which Ray cluster to use, and whether somebody answers there, before Ray waits for minutes."""

from __future__ import annotations

import os
import socket
from urllib.parse import urlsplit

from rldf_ray.errors import UserError

VARIABLE = "RAY_ADDRESS"
LOCAL = "local"
DEADLINE_S = 20.0
DEFAULT_PORT = 6379


class ClusterAddressError(UserError):
    """The cluster that `RAY_ADDRESS` names cannot be reached; the message says what to do."""


def joined_address() -> str | None:
    """The cluster that `RAY_ADDRESS` names; None where one of this program's own is started."""
    address = os.environ.get(VARIABLE, "").strip()
    return address if address not in ("", LOCAL) else None


def reachable_address() -> str:
    """The address for `ray.init`.

    Raises:
        ClusterAddressError: it is no HOST:PORT, or nothing takes a connection there within
            `DEADLINE_S`.
    """
    address = joined_address()
    if address is None:
        return LOCAL
    if address != "auto":
        _check(address)
    return address


def _check(address: str) -> None:
    url = urlsplit(address if "://" in address else f"//{address}")
    try:
        host, port = url.hostname, url.port
    except ValueError:
        host, port = None, None
    if not host:
        raise ClusterAddressError(
            f"{VARIABLE}={address} names no host: needed is HOST:PORT of a cluster's head; unset "
            "it to start Ray on this machine"
        )
    if url.scheme:
        raise ClusterAddressError(
            f"{VARIABLE}={address}: a run is a program on one of the cluster's nodes and no client "
            f"of {url.scheme}://: set {VARIABLE}={host}:{DEFAULT_PORT} on a node, or hand the run "
            "in with `ray job submit` (docs/cluster.md)"
        )
    try:
        socket.create_connection((host, port or DEFAULT_PORT), DEADLINE_S).close()
    except OSError as error:
        raise ClusterAddressError(
            f"no Ray cluster can be reached at {VARIABLE}={address} ({error}): start it, correct "
            f"the address, or unset {VARIABLE} to start Ray on this machine"
        ) from None
