"""Signals that ask a program to end: they unwind it, so that what it began is ended in order.

Ctrl-C raises KeyboardInterrupt wherever the main thread is; what is here does the same for the
signals that a service manager, a scheduler or a closed terminal sends.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGTERM, signal.SIGHUP)


class Terminated(SystemExit):
    """The program was asked to end; its exit status is a shell's, 128 and the signal's number."""

    def __init__(self, number: int) -> None:
        super().__init__(exit_status(number))


def exit_status(number: int) -> int:
    """What a program ends with that a signal ended."""
    return 128 + number


STATUSES = tuple(exit_status(number) for number in (signal.SIGINT, *ENDING))


@contextmanager
def unwinding() -> Iterator[None]:
    """Let signals that would end the process at once raise `Terminated` in the main thread.

    Where an event loop runs there, the first is raised between two steps of its tasks, as asyncio
    does with Ctrl-C: a task that it was raised in would keep it, and be reported as having failed.
    One that is ignored (`nohup`), or has a handler, is left as it is. Elsewhere than in the main
    thread, which alone may set handlers, nothing changes.

    Raises:
        Terminated: at the end of the block as well, whatever the first became on its way: Ray makes
            one with status 1 of it, and what is cut off fails for reasons of its own.
    """
    received: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        received.append(number)
        loop = _running_loop()
        if loop is None or len(received) > 1:
            raise Terminated(number)
        loop.call_soon_threadsafe(_terminate, number)

    numbers = [n for n in ENDING if signal.getsignal(n) is signal.SIG_DFL] if _in_main() else []
    for number in numbers:
        signal.signal(number, end)
    try:
        yield
    except BaseException as error:
        if received:
            raise Terminated(received[0]) from error
        raise
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _terminate(number: int) -> None:
    raise Terminated(number)


@contextmanager
def handlers_kept() -> Iterator[None]:
    """Put back, after the block, the handlers that a library set in it, from Python or from C."""
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, *ENDING)} if _in_main() else {}
    try:
        yield
    finally:
        for number, handler in before.items():
            # None is a handler that was not set from Python, which cannot be set from it either.
            if handler is not None:
                signal.signal(number, handler)


def _in_main() -> bool:
    return threading.current_thread() is threading.main_thread()
