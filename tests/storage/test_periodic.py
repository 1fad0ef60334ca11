"""A call that a thread repeats while other work goes on."""

from __future__ import annotations

import threading

import pytest

from rldf_ray.storage.periodic import repeated

# Only a failure waits this long.
PATIENCE_S = 60.0


def test_the_call_is_repeated_until_the_block_ends() -> None:
    calls: list[threading.Thread] = []
    third = threading.Event()

    def call() -> None:
        calls.append(threading.current_thread())
        if len(calls) == 3:
            third.set()

    with repeated(call, 0.001):
        assert third.wait(PATIENCE_S)
    assert threading.current_thread() not in calls
    assert not calls[0].is_alive()


def test_the_end_waits_for_a_call_under_way_and_for_no_turn() -> None:
    begun, release, finished = threading.Event(), threading.Event(), threading.Event()

    def call() -> None:
        begun.set()
        assert release.wait(PATIENCE_S)
        finished.set()

    with repeated(call, 0.001):
        assert begun.wait(PATIENCE_S)
        release.set()
    assert finished.is_set()
    with repeated(pytest.fail, 1e6):
        pass


def test_an_error_of_the_block_ends_the_calls() -> None:
    calls: list[threading.Thread] = []
    begun = threading.Event()

    def call() -> None:
        calls.append(threading.current_thread())
        begun.set()

    def block() -> None:
        with repeated(call, 0.001):
            assert begun.wait(PATIENCE_S)
            raise ValueError("the block")

    with pytest.raises(ValueError, match="the block"):
        block()
    assert not calls[0].is_alive()


def test_a_call_that_raises_is_logged_and_repeated(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[threading.Thread] = []
    third = threading.Event()

    def call() -> None:
        calls.append(threading.current_thread())
        if len(calls) == 3:
            third.set()
        raise ValueError("the call")

    with repeated(call, 0.001):
        assert third.wait(PATIENCE_S)
    assert "ValueError: the call" in caplog.text
    assert len(set(calls)) == 1
