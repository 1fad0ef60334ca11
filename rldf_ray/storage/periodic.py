"""A call that a thread repeats while other work goes on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

log = logging.getLogger(__name__)


@contextmanager
def repeated(call: Callable[[], None], every_s: float) -> Iterator[None]:
    """Call `call` from a thread, `every_s` seconds after the block began or the last call returned.

    The end of the block waits for a call that is under way; no other follows. What a `call` raises
    is logged, and it is called again at the next turn.
    """
    over = threading.Event()

    def repeat() -> None:
        # An event, not a sleep: the end of the block need not wait for the next turn.
        while not over.wait(every_s):
            try:
                call()
            except Exception:
                log.warning("a call that is repeated every %g s failed", every_s, exc_info=True)

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
