"""Work that no signal cuts off in its middle."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future


def in_own_thread(work: Callable[[], None]) -> None:
    """Do `work` in a thread and wait for it; what it raises is raised here.

    Signals are raised in the main thread. One that comes meanwhile is raised once `work` has ended,
    a second one at once: `work` then goes on until the process ends.
    """
    ended: Future[None] = Future()
    # The thread takes it to begin; or its caller does, whom a signal has reached before.
    first = threading.Lock()

    def do() -> None:
        if not first.acquire(blocking=False):
            return
        try:
            work()
            ended.set_result(None)
        except BaseException as error:  # noqa: BLE001
            ended.set_exception(error)

    try:
        # A daemon: the interpreter's end does not wait for what a second signal has left behind.
        threading.Thread(target=do, daemon=True).start()
        ended.exception()
    except BaseException:
        if not first.acquire(blocking=False):
            ended.exception()
        raise
    ended.result()
