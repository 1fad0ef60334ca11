"""The simulation against what can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.scale_events import Load, Spot, simulate

LOAD = Load(
    debates=1, in_flight=1, rounds=2, debaters=3, slots=64,
    speak_s=1.0, judge_s=0.25, share_alone=1.0, driver_s=0.0,
)  # fmt: skip


def test_one_engine_takes_the_sum_of_the_work() -> None:
    # Three statements and four verdicts a round, two rounds.
    found = simulate(LOAD, 1)
    assert found.seconds == pytest.approx(2 * (3 * 1.0 + 4 * 0.25))
    assert found.engines_busy == pytest.approx(1.0)


def test_a_request_alone_is_no_faster_than_one_was_measured() -> None:
    # A tenth of an engine each, so three statements together take ten seconds and not three.
    found = simulate(replace(LOAD, share_alone=0.1), 1)
    assert found.seconds == pytest.approx(2 * (10 + 2.5))
    assert found.engines_busy == pytest.approx((3 * 1 + 4 * 0.25) / 12.5)


def test_engines_share_many_debates_evenly() -> None:
    many = replace(LOAD, debates=40, in_flight=40)
    one, four = simulate(many, 1), simulate(many, 4)
    assert one.seconds == pytest.approx(40 * 8)
    assert four.seconds == pytest.approx(one.seconds / 4)


def test_debates_in_flight_limit_what_engines_can_do() -> None:
    few = replace(LOAD, debates=8, in_flight=1)
    assert simulate(few, 4).seconds == pytest.approx(8 * 8)


def test_requests_beyond_the_slots_wait() -> None:
    narrow = replace(LOAD, slots=1, share_alone=0.5)
    assert simulate(narrow, 1).seconds == pytest.approx(2 * (3 * 2 + 4 * 0.5))


def test_the_driver_takes_rounds_in_one_after_another() -> None:
    slow = replace(LOAD, debates=10, in_flight=10, driver_s=5.0)
    found = simulate(slow, 100)
    assert found.seconds >= 10 * 2 * 3 * 5.0
    assert found.driver_busy > 0.9


def test_lost_engines_lose_time_and_no_debate() -> None:
    many = replace(LOAD, debates=400, in_flight=100)
    calm, rough = simulate(many, 4), simulate(many, 4, Spot(an_hour=20.0, start_s=30.0))
    assert rough.lost > 0
    assert rough.seconds > calm.seconds
    assert simulate(many, 4, Spot(0.0, 30.0)) == calm
