"""Engines sleep while the trainer works, where the plan says so."""

from __future__ import annotations

from typing import Any

import pytest

from rldf_ray.train.ppo import sleep as turns
from rldf_ray.train.ppo.sleep import Turns


class RecordedPool:
    def __init__(self, told: list[str]) -> None:
        self.told = told

    def sleep(self) -> None:
        self.told.append("sleep")

    def wake(self) -> None:
        self.told.append("wake")


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
    told: list[str] = []
    monkeypatch.setattr(turns, "barrier", lambda: told.append("barrier"))
    monkeypatch.setattr(turns, "release_memory", lambda: told.append("release"))
    pool: Any = RecordedPool(told)
    taken = Turns(pool, rank, sleep)
    taken.trainer()
    taken.engines()
    assert told == expected
