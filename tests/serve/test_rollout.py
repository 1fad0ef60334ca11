"""Which engines are started and ended: those of the pointer, and no older ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.serve.schema import ApplicationStatus

from rldf_ray.apps.serve import rollout
from rldf_ray.apps.serve.rollout import KEEP_S, Rollouts
from rldf_ray.apps.serve.store import ModelStore
from tests.serve.a_store import published

V = [f"rldf-policy.v000{number}" for number in range(10)]


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class FakeServe:
    """Ray Serve as `Rollouts` asks it; what it starts is DEPLOYING until a test says otherwise."""

    def __init__(self) -> None:
        self.applications: dict[str, str] = {"rldf": "RUNNING"}
        self.started: list[str] = []

    def status(self) -> Any:
        found = {
            name: SimpleNamespace(status=ApplicationStatus(s))
            for name, s in self.applications.items()
        }
        return SimpleNamespace(applications=found)

    def RunTarget(self, application: Any, name: str, route_prefix: None) -> str:  # noqa: N802
        return name

    def run_many(self, targets: list[str], **how: bool) -> None:
        self.started += targets
        self.applications |= dict.fromkeys(targets, "DEPLOYING")

    def delete(self, name: str, _blocking: bool) -> None:
        self.applications[name] = "DELETING"

    @property
    def there(self) -> set[str]:
        return {n for n, s in self.applications.items() if n != "rldf" and s != "DELETING"}


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeServe:
    found = FakeServe()
    monkeypatch.setattr(rollout, "serve", found)
    monkeypatch.setattr(rollout, "engine_application", lambda *given: None)
    return found


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(rollout, "time", SimpleNamespace(monotonic=clock))
    return clock


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return published(tmp_path, 6)


Look = Callable[[], None]


@pytest.fixture
def begin(store: ModelStore, fake: FakeServe, clock: Clock) -> Callable[[], Look]:
    """Begins a replica of `Rollouts`; what it returns is a look of it, a second after the last."""

    def begin() -> Look:
        args = {"models": {"policy": {"store": True}}, "store": str(store.root)}
        rollouts = Rollouts(args)
        rollouts._task.cancel()
        rollouts._routes.clock = clock

        def look() -> None:
            clock.now += 1.1
            rollouts._look()

        return look

    return begin


def rolled_through(store: ModelStore) -> None:
    for number in range(2, 7):
        store.rollout(f"v000{number}", 100)


async def test_a_server_on_a_store_with_a_history_starts_the_current_version_alone(
    store: ModelStore, fake: FakeServe, begin: Callable[[], Look]
) -> None:
    rolled_through(store)
    look = begin()
    for _ in range(20):
        look()
    assert fake.started == [V[6]]


async def test_a_replica_that_is_restarted_starts_nothing_that_was_before(
    store: ModelStore, fake: FakeServe, begin: Callable[[], Look]
) -> None:
    rolled_through(store)
    fake.applications[V[6]] = "RUNNING"
    look = begin()
    for _ in range(20):
        look()
    assert fake.started == [] and fake.there == {V[6]}


@pytest.mark.parametrize("status", ["UNHEALTHY", "DEPLOYING"])
async def test_a_current_engine_that_dies_starts_no_retired_one(
    store: ModelStore, fake: FakeServe, begin: Callable[[], Look], status: str
) -> None:
    rolled_through(store)
    fake.applications[V[6]] = "RUNNING"
    look = begin()
    look()
    fake.applications[V[6]] = status
    for _ in range(20):
        look()
    assert fake.started == [] and fake.there == {V[6]}


async def test_the_old_engine_stays_until_the_new_one_has_come_up(
    store: ModelStore, fake: FakeServe, begin: Callable[[], Look], clock: Clock
) -> None:
    fake.applications[V[1]] = "RUNNING"
    look = begin()
    look()
    store.rollout("v0002", 100)
    for status in ("RUNNING", "UNHEALTHY", "RUNNING"):  # it may die meanwhile, and come back
        fake.applications[V[1]] = status
        clock.now += 60
        look()
        assert fake.there == {V[1], V[2]}
    fake.applications[V[2]] = "RUNNING"
    look()
    assert fake.there == {V[1], V[2]}  # the API's replicas may not have seen it yet
    clock.now += 60
    look()
    fake.applications[V[2]] = "UNHEALTHY"
    for _ in range(20):
        look()
    assert fake.started == [V[2]] and fake.there == {V[2]}


async def test_the_old_engine_stays_while_it_answers_for_one_that_came_up_and_died(
    store: ModelStore, fake: FakeServe, begin: Callable[[], Look]
) -> None:
    fake.applications[V[1]] = "RUNNING"
    look = begin()
    look()
    store.rollout("v0002", 100)
    look()
    fake.applications[V[2]] = "RUNNING"
    look()
    fake.applications[V[2]] = "UNHEALTHY"
    for _ in range(60):
        look()
    assert fake.started == [V[2]] and fake.there == {V[1], V[2]}


async def test_a_version_that_never_comes_up_makes_room_and_the_old_one_stays(
    store: ModelStore, fake: FakeServe, begin: Callable[[], Look], clock: Clock
) -> None:
    fake.applications[V[1]] = "RUNNING"
    look = begin()
    for number in (2, 3):
        store.rollout(f"v000{number}", 100)
        for _ in range(10):
            look()
        assert fake.there == {V[1], V[number]}
    assert fake.started == [V[2], V[3]]


async def test_a_rollout_that_is_taken_back_starts_the_old_version_again(
    store: ModelStore, fake: FakeServe, begin: Callable[[], Look]
) -> None:
    fake.applications |= {V[1]: "RUNNING", V[2]: "RUNNING"}
    store.rollout("v0002", 100)
    look = begin()
    while V[1] in fake.there:
        look()
    store.rollout("v0001", 100)
    look()
    del fake.applications[V[1]]  # it was still being deleted
    for _ in range(10):
        look()
    assert fake.started == [V[1]] and fake.there == {V[1], V[2]}
    fake.applications[V[1]] = "RUNNING"
    for _ in range(20):
        look()
    assert fake.there == {V[1]}


async def test_a_replica_that_is_restarted_ends_what_is_left_of_a_rollout(
    store: ModelStore, fake: FakeServe, begin: Callable[[], Look], clock: Clock
) -> None:
    others = {"other-policy.v0001": "RUNNING", "rldf-policy.mine": "RUNNING"}
    fake.applications |= {V[1]: "RUNNING", V[2]: "RUNNING", **others}
    store.rollout("v0002", 100)
    look = begin()
    look()
    assert V[1] in fake.there
    clock.now += KEEP_S
    for _ in range(20):
        look()
    assert fake.there == {V[2], *others}
