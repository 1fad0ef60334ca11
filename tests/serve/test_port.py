"""Of two servers on one port the second is refused before it starts anything."""

from __future__ import annotations

import socket

import pytest

from rldf_ray.apps.serve.launch import serving
from rldf_ray.apps.serve.port import PortTakenError, held_port
from rldf_ray.apps.serve.settings import read_settings

HOST = "127.0.0.1"


def proxy(port: int) -> socket.socket:
    """A socket that listens as Serve's proxy does."""
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    found.bind((HOST, port))
    found.listen(64)
    found.settimeout(10)
    return found


def test_the_proxy_gets_every_connection_of_the_port_that_is_held_for_it() -> None:
    with held_port(HOST, 0) as port, proxy(port) as listening:
        for _ in range(20):
            with socket.create_connection((HOST, port)):
                listening.accept()[0].close()


def test_a_second_server_is_refused_before_and_after_the_first_one_listens() -> None:
    with held_port(HOST, 0) as port:
        with pytest.raises(PortTakenError, match=f"{HOST}:{port}"), held_port(HOST, port):
            pass
        with proxy(port), pytest.raises(PortTakenError), held_port(HOST, port):
            pass
    with held_port(HOST, port) as again:
        assert again == port


def test_a_port_that_a_proxy_listens_on_is_refused_before_ray_starts() -> None:
    with proxy(0) as listening:
        port = listening.getsockname()[1]
        settings = read_settings({"models": {"policy": {"folder": "p"}}, "port": port})
        with pytest.raises(PortTakenError, match="--port"), serving(settings):
            pass


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(PortTakenError, match="listened on"), held_port("192.0.2.1", 0):
        pass
