"""Engines sleep while the trainer works, where the plan says so."""

from __future__ import annotations

from typing import Any

import pytest

from rldf_ray.train.ppo import sleep as sleep_module
from rldf_ray.train.ppo.sleep import EngineSleep


class RecordedPool:
    def __init__(self, calls: list[str]) -> None:
        self.calls = calls

    def sleep(self) -> None:
        self.calls.append("sleep")

    def wake(self) -> None:
        self.calls.append("wake")


@pytest.mark.parametrize(
    ("rank", "sleep", "expected"),
    [
        (0, True, ["barrier", "sleep", "release", "barrier", "wake"]),
        (1, True, ["barrier", "release", "barrier"]),
        (0, False, ["barrier"]),
    ],
)
def test_the_first_worker_tells_the_engines_once_all_are_done(
    monkeypatch: pytest.MonkeyPatch, rank: int, sleep: bool, expected: list[str]
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(sleep_module, "barrier", lambda: calls.append("barrier"))
    monkeypatch.setattr(sleep_module, "release_memory", lambda: calls.append("release"))
    pool: Any = RecordedPool(calls)
    engine_sleep = EngineSleep(pool, rank, sleep)
    engine_sleep.begin()
    engine_sleep.end()
    assert calls == expected


@pytest.mark.parametrize(("sleep", "expected"), [(True, ["wake"]), (False, [])])
def test_engines_that_never_sleep_are_not_woken(sleep: bool, expected: list[str]) -> None:
    calls: list[str] = []
    pool: Any = RecordedPool(calls)
    EngineSleep(pool, 0, sleep).wake()
    assert calls == expected
