"""Threads that wait for others give their core back soon, unless the user says how they wait."""

from __future__ import annotations

import pytest

from rldf_ray.cluster.environment import SPINS, waiting_environment
from rldf_ray.cluster.ray_cluster import _worker_environment


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)


def test_workers_spin_a_short_while() -> None:
    assert waiting_environment() == {"GOMP_SPINCOUNT": str(SPINS)}
    assert _worker_environment()["GOMP_SPINCOUNT"] == str(SPINS)


@pytest.mark.parametrize(
    ("name", "value"), [("GOMP_SPINCOUNT", "7"), ("OMP_WAIT_POLICY", "active")]
)
def test_what_the_user_has_set_goes_to_the_workers(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    assert waiting_environment() == {name: value}
