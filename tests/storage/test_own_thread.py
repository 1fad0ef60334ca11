"""Work that no signal cuts off in its middle."""

from __future__ import annotations

import signal
import threading

import pytest

from rldf_ray.storage.own_thread import in_own_thread

PATIENCE_S = 60.0


def interrupt_main() -> None:
    ident = threading.main_thread().ident
    assert ident is not None
    signal.pthread_kill(ident, signal.SIGINT)


def test_the_work_is_waited_for_and_raises_here() -> None:
    done: list[threading.Thread] = []
    in_own_thread(lambda: done.append(threading.current_thread()))
    assert done and done[0] is not threading.current_thread()

    def fail() -> None:
        raise ValueError("the work")

    with pytest.raises(ValueError, match="the work"):
        in_own_thread(fail)


@pytest.mark.usefixtures("interruptible")
def test_a_signal_is_raised_once_the_work_has_ended() -> None:
    ended: list[bool] = []

    def work() -> None:
        interrupt_main()
        threading.Event().wait(0.1)
        ended.append(True)

    with pytest.raises(KeyboardInterrupt):
        in_own_thread(work)
    assert ended == [True]


def test_a_second_signal_is_raised_at_once() -> None:
    raised, over = threading.Event(), threading.Event()

    def work() -> None:
        # Two that come together are one.
        while not raised.wait(0.05):
            interrupt_main()
        over.set()

    def once(number: int, frame: object) -> None:
        if not raised.is_set():
            signals.append(number)
            if len(signals) == 2:
                raised.set()
            raise KeyboardInterrupt

    signals: list[int] = []
    before = signal.signal(signal.SIGINT, once)
    try:
        with pytest.raises(KeyboardInterrupt):
            in_own_thread(lambda: (work(), threading.Event().wait(PATIENCE_S))[0])
        assert len(signals) == 2
        assert over.wait(PATIENCE_S)
    finally:
        signal.signal(signal.SIGINT, before)
