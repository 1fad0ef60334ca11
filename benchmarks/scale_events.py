"""Debates on many engines, event by event, in simulated time.

An engine works on its requests together: each goes on at an equal share of the engine's speed, and
none faster than a request alone does. So one counter of "work done for everybody" per engine is
enough, and a request is finished when the counter has gone on by what the request needs.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

SEED = 0
Done = Callable[[], None]


@dataclass(frozen=True, kw_only=True)
class Load:
    """What is to be done, and what each piece costs.

    Attributes:
        slots: requests an engine works on together; more wait.
        speak_s, judge_s: seconds of a whole engine that one request takes.
        share_alone: the greatest share of an engine's speed that one request can use.
        driver_s: seconds of the driver per statement.
    """

    debates: int
    in_flight: int
    rounds: int
    debaters: int
    slots: int
    speak_s: float
    judge_s: float
    share_alone: float
    driver_s: float


@dataclass(frozen=True)
class Spot:
    """Engines that are lost `an_hour` times an hour each, and back after `start_s`."""

    an_hour: float
    start_s: float


@dataclass(frozen=True)
class Simulation:
    """What came of it; shares are of the whole time."""

    seconds: float
    engines_busy: float
    driver_busy: float
    lost: int


class Clock:
    """Events in the order of their time."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Done]] = []
        self._order = itertools.count()

    def at(self, time: float, event: Done) -> None:
        heapq.heappush(self._events, (time, next(self._order), event))

    def step(self) -> None:
        self.now, _, event = heapq.heappop(self._events)
        event()


@dataclass(kw_only=True)
class Engine:
    """Shares its speed among at most `slots` requests."""

    clock: Clock
    slots: int
    share_alone: float
    work_done: float = 0.0
    up: bool = True
    _counter: float = 0.0
    _since: float = 0.0
    _life: int = 0
    _active: list[tuple[float, int, float, Done]] = field(default_factory=list)
    _waiting: deque[tuple[float, Done]] = field(default_factory=deque)
    _order: itertools.count[int] = field(default_factory=itertools.count)

    def ask(self, work: float, done: Done) -> None:
        """Do `work` (seconds of the whole engine), then call `done`."""
        self._advance()
        if self.up and len(self._active) < self.slots:
            self._begin(work, done)
            self._plan()
        else:
            self._waiting.append((work, done))

    def lose(self) -> list[tuple[float, Done]]:
        """Go down; what was asked and not finished, to be asked elsewhere."""
        self._advance()
        self.up, self._life = False, self._life + 1
        asked = [(work, done) for _, _, work, done in self._active] + list(self._waiting)
        self._active.clear()
        self._waiting.clear()
        return asked

    def come_back(self) -> None:
        self._advance()
        self.up = True
        self._fill()
        self._plan()

    def _begin(self, work: float, done: Done) -> None:
        heapq.heappush(self._active, (self._counter + work, next(self._order), work, done))

    def _rate(self) -> float:
        """The share of the engine's speed that each request has."""
        return min(self.share_alone, 1 / len(self._active)) if self._active else 0.0

    def _advance(self) -> None:
        elapsed = self.clock.now - self._since
        self._counter += elapsed * self._rate()
        self.work_done += elapsed * self._rate() * len(self._active)
        self._since = self.clock.now

    def _plan(self) -> None:
        """Come back when the next request is finished, unless something changes before."""
        self._life += 1
        if not self._active:
            return
        life, left = self._life, max(0.0, self._active[0][0] - self._counter)
        self.clock.at(self.clock.now + left / self._rate(), lambda: self._finish(life))

    def _finish(self, life: int) -> None:
        if life != self._life:
            return
        self._advance()
        _, _, _, done = heapq.heappop(self._active)
        self._fill()
        self._plan()
        done()

    def _fill(self) -> None:
        while self._waiting and len(self._active) < self.slots:
            self._begin(*self._waiting.popleft())


class Debates:
    """Debates on engines: each stays on one, and rounds follow each other."""

    def __init__(self, load: Load, engines: int, spot: Spot | None) -> None:
        self.clock, self._load, self._spot = Clock(), load, spot
        self.engines = [
            Engine(clock=self.clock, slots=load.slots, share_alone=load.share_alone)
            for _ in range(engines)
        ]
        self._chance = random.Random(SEED)
        self._left, self.finished, self.lost = load.debates, 0, 0
        self.driver_s, self._driver_free = 0.0, 0.0
        self._turns = itertools.cycle(self.engines)

    def hold(self) -> None:
        for _ in range(min(self._load.in_flight, self._load.debates)):
            self._next()
        if self._spot is not None and self._spot.an_hour:
            for engine in self.engines:
                self._lose_later(engine, self._spot)
        while self.finished < self._load.debates:
            self.clock.step()

    def _next(self) -> None:
        if self._left:
            self._left -= 1
            self._round(next(self._turns), self._load.rounds)

    def _round(self, engine: Engine, rounds: int) -> None:
        """Statements, then scores and ranking, then the next round."""
        load = self._load
        if rounds == 0:
            self.finished += 1
            self._next()
            return
        judged = _after(load.debaters + 1, lambda: self._drive(engine, rounds))

        def judge() -> None:
            for _ in range(load.debaters + 1):
                engine.ask(load.judge_s, judged)

        spoken = _after(load.debaters, judge)
        for _ in range(load.debaters):
            engine.ask(load.speak_s, spoken)

    def _drive(self, engine: Engine, rounds: int) -> None:
        """The driver takes a round's statements in, one round after another."""
        takes = self._load.driver_s * self._load.debaters
        self._driver_free = max(self._driver_free, self.clock.now) + takes
        self.driver_s += takes
        self.clock.at(self._driver_free, lambda: self._round(engine, rounds - 1))

    def _lose_later(self, engine: Engine, spot: Spot) -> None:
        self.clock.at(
            self.clock.now + self._chance.expovariate(spot.an_hour / 3600),
            lambda: self._lose(engine, spot),
        )

    def _lose(self, engine: Engine, spot: Spot) -> None:
        self.lost += 1
        others = [other for other in self.engines if other.up and other is not engine]
        for work, done in engine.lose():
            (self._chance.choice(others) if others else engine).ask(work, done)

        def back() -> None:
            engine.come_back()
            self._lose_later(engine, spot)

        self.clock.at(self.clock.now + spot.start_s, back)


def _after(times: int, then: Done) -> Done:
    """Called `times` times, calls `then`."""
    left = itertools.count(times - 1, -1)

    def done() -> None:
        if next(left) == 0:
            then()

    return done


def simulate(load: Load, engines: int, spot: Spot | None = None) -> Simulation:
    """Hold all debates of `load`."""
    debates = Debates(load, engines, spot)
    debates.hold()
    seconds = debates.clock.now
    busy = sum(engine.work_done for engine in debates.engines) / (engines * seconds)
    return Simulation(seconds, busy, debates.driver_s / seconds, debates.lost)
