"""Coroutines carried out to their end, from a program or from a notebook."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

T = TypeVar("T")


def complete(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, in an event loop of its own.

    Where a loop runs already, as in a notebook, that one waits: the work has a thread's, with the
    caller's context variables.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1, thread_name_prefix="rldf") as thread:
        return thread.submit(copy_context().run, asyncio.run, work).result()
