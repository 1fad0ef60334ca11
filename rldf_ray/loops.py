"""Coroutines carried out to their end, from a program or from a notebook."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

T = TypeVar("T")


class _Work:
    """What is carried out in another thread, so that it can be cancelled from this one."""

    def __init__(self) -> None:
        self.cancelled = False
        self._tasks: dict[asyncio.Task[Any], asyncio.AbstractEventLoop] = {}

    async def done(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, unless it is cancelled before or meanwhile."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks[task] = asyncio.get_running_loop()
        try:
            if self.cancelled:
                work.close()
                raise asyncio.CancelledError
            return await work
        finally:
            del self._tasks[task]

    def cancel(self) -> None:
        self.cancelled = True
        for task, loop in [*self._tasks.items()]:
            # A loop that has ended meanwhile has nothing to be cancelled.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(task.cancel)


_work: ContextVar[_Work | None] = ContextVar("_work", default=None)
"""Of the thread that `in_thread` works in."""


def complete(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, in an event loop of its own.

    Where a loop runs already, as in a notebook, that one waits: the work has a thread's, with the
    caller's context variables. Whatever ends the waiting, such as Ctrl-C, cancels the work.
    """
    current = _work.get() or _Work()
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(current.done(work))
    with ThreadPoolExecutor(1, thread_name_prefix="rldf") as thread:
        result = thread.submit(copy_context().run, asyncio.run, current.done(work))
        try:
            return result.result()
        except BaseException:
            if not result.done():
                current.cancel()
            raise


async def in_thread(function: Callable[[], T]) -> T:
    """What `function` returns, which works in a thread while the caller's loop goes on.

    Where the caller is cancelled, so is what the function has `complete` do, at the next call if
    there is none, and its end is waited for; a second time it is left to itself.
    """
    current = _Work()
    token = _work.set(current)
    try:
        working = asyncio.ensure_future(asyncio.to_thread(function))
    finally:
        _work.reset(token)
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        current.cancel()
        await asyncio.wait([working])
        if not working.cancelled():
            # That of the cancelled work, and no news.
            working.exception()
        raise


def check_cancelled() -> None:
    """End the function that `in_thread` works at where its caller has been cancelled.

    Raises:
        CancelledError: it has.
    """
    current = _work.get()
    if current is not None and current.cancelled:
        raise asyncio.CancelledError
