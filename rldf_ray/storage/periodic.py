"""A call that a thread repeats while other work goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def repeated(call: Callable[[], None], every_s: float) -> Iterator[None]:
    """Call `call` from a thread, `every_s` seconds after the block began or the last call returned.

    The end of the block waits for a call that is under way; no other follows. A `call` that raises
    is not repeated, and the block goes on.
    """
    over = threading.Event()

    def repeat() -> None:
        # An event, not a sleep: the end of the block need not wait for the next turn.
        while not over.wait(every_s):
            call()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
