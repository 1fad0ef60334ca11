"""Threads that wait for others give their core back soon, unless the user says how they wait."""

from __future__ import annotations

import pytest

from rldf_ray.cluster.environment import OURS, SPINS, SPINS_ALONE, waiting_environment
from rldf_ray.cluster.ray_cluster import _worker_environment


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", OURS):
        monkeypatch.delenv(name, raising=False)


def test_workers_spin_a_short_while() -> None:
    assert waiting_environment()["GOMP_SPINCOUNT"] == str(SPINS)
    assert _worker_environment()["GOMP_SPINCOUNT"] == str(SPINS)


def test_who_computes_alone_waits_longer_in_a_worker_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = waiting_environment(alone=True)
    assert told["GOMP_SPINCOUNT"] == str(SPINS_ALONE)
    for name, value in _worker_environment().items():
        monkeypatch.setenv(name, value)
    assert waiting_environment(alone=True) == told


@pytest.mark.parametrize(
    ("name", "value"), [("GOMP_SPINCOUNT", "7"), ("OMP_WAIT_POLICY", "active")]
)
def test_what_the_user_has_set_goes_to_the_workers(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    assert waiting_environment() == waiting_environment(alone=True) == {name: value}
