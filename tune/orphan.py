"""A program that must not outlive the one that started it."""

from __future__ import annotations

import os
import threading
import time


def end_with_parent() -> None:
    """From now on this program ends, at once and without tidying up, when its parent has gone."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.2)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
