"""A cluster that cannot be reached is said to be so at once, and an empty address is none."""

from __future__ import annotations

import socket

import pytest

from rldf_ray.cluster.address import ClusterAddressError, joined_address, reachable_address


@pytest.mark.parametrize("address", [None, "", "  ", "local"])
def test_without_an_address_ray_is_started_here(
    address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if address is not None:
        monkeypatch.setenv("RAY_ADDRESS", address)
    assert joined_address() is None
    assert reachable_address() == "local"


def test_a_cluster_that_takes_connections_is_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setenv("RAY_ADDRESS", address)
        assert reachable_address() == joined_address() == address


@pytest.mark.parametrize("address", ["ray://127.0.0.1:10001", "http://127.0.0.1:8265"])
def test_an_address_for_clients_is_refused_with_the_one_that_joins(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(ClusterAddressError, match=r"RAY_ADDRESS=127.0.0.1:6379.* job submit"):
        reachable_address()


def test_where_nothing_listens_one_message_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        monkeypatch.setenv("RAY_ADDRESS", address)
        with pytest.raises(ClusterAddressError, match="unset RAY_ADDRESS") as caught:
            reachable_address()
    assert address in str(caught.value)


@pytest.mark.parametrize("address", [":6379", "host:port"])
def test_what_names_no_host_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(ClusterAddressError, match="HOST:PORT"):
        reachable_address()


def test_the_cluster_of_this_machine_is_left_to_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    assert reachable_address() == "auto"
