"""A stage's seconds: until processes were up, and what of the cores nobody used."""

from __future__ import annotations

import time
from collections import namedtuple

import psutil
import pytest

from rldf_ray.cluster.clock import Clock

Times = namedtuple("Times", "user system idle iowait guest")


class Machine:
    """Its monotonic clock, and what its cores have done since it came up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.times = Times(50.0, 10.0, 30.0, 10.0, 5.0)
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(psutil, "cpu_times", lambda: self.times)

    def passes(self, seconds: float, used: float, guest: float = 0.0) -> None:
        """On two cores, `used` core-seconds of them; those of guests are among them."""
        self.now += seconds
        t = self.times
        idle = 2 * seconds - used
        self.times = Times(
            t.user + used, t.system, t.idle + idle / 2, t.iowait + idle / 2, t.guest + guest
        )


def test_a_lap_says_what_was_waited_for_and_what_nobody_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(monkeypatch)
    clock = Clock()
    machine.passes(5.0, used=10.0)
    with clock.starting():
        machine.passes(15.0, used=10.0, guest=3.0)
    first = clock.lap()
    assert (first.seconds, first.start_seconds, first.idle_share) == (20.0, 15.0, 0.5)
    machine.passes(10.0, used=20.0)
    second = clock.lap()
    assert (second.seconds, second.start_seconds, second.idle_share) == (10.0, 0.0, 0.0)


def test_a_start_that_fails_counts_and_other_machines_clocks_do_no_harm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(monkeypatch)
    clock = Clock()

    def fail() -> None:
        with clock.starting():
            machine.passes(2.0, used=1.0)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    clock.add_start(-1000.0)
    assert clock.lap().start_seconds == 2.0
    machine.passes(3.0, used=1.0)
    clock.add_start(1000.0)
    assert clock.lap().start_seconds == 3.0
    assert clock.lap().idle_share is None
