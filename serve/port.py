"""The port of a server, taken before anything starts.

Serve's proxy listens with SO_REUSEPORT, so a second server on the same port would start as well,
and the kernel would divide the requests between the two.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from rldf_ray.errors import UserError


class PortTakenError(UserError):
    """The address cannot be listened on; the message says why and what to do."""


@contextmanager
def held_port(host: str, port: int) -> Iterator[int]:
    """Keep a port for the proxy of this server for as long as the block lasts; 0 is any free one.

    Raises:
        PortTakenError: another program listens there, or this machine has no such address.
    """
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as held:
        # Connections of a server that has just ended still have the port.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            held.bind((host, port))
        except OSError as error:
            raise PortTakenError(
                f"{host}:{port} cannot be listened on ({error.strerror}): give another --port (0 "
                "is any free one) or --host, or stop the program that has it"
            ) from error
        # From now on the proxy may have it too, which asks for SO_REUSEPORT, and nobody else. The
        # kernel gives connections to sockets that listen, which this one never does.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        yield int(held.getsockname()[1])
