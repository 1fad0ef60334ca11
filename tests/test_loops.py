"""Work is carried out to its end whether or not a loop runs already."""

from __future__ import annotations

import asyncio
import contextvars
import threading

import pytest

from rldf_ray.loops import check_cancelled, complete, in_thread

given: contextvars.ContextVar[int] = contextvars.ContextVar("given", default=0)


async def work(fails: bool = False) -> tuple[int, bool]:
    await asyncio.sleep(0)
    if fails:
        raise ValueError("of the work")
    return given.get(), threading.current_thread() is threading.main_thread()


def test_without_a_loop_it_is_this_thread_that_works() -> None:
    given.set(3)
    assert complete(work()) == (3, True)


async def test_inside_a_loop_it_works_elsewhere_with_the_same_context() -> None:
    given.set(4)
    assert complete(work()) == (4, False)


async def test_what_it_raises_is_raised() -> None:
    with pytest.raises(ValueError, match="of the work"):
        complete(work(fails=True))


class _Begun:
    """Work that never ends by itself: whether it has begun, and what ended it."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.ended: list[str] = []

    async def work(self) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise


async def test_what_ends_the_waiting_ends_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    held = _Begun()

    def interrupted(self: object, timeout: float | None = None) -> None:
        assert held.begun.wait(600)
        raise KeyboardInterrupt

    monkeypatch.setattr("concurrent.futures.Future.result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        complete(held.work())
    assert held.ended == ["cancelled"]


async def test_a_cancelled_caller_of_a_thread_ends_what_it_carries_out() -> None:
    held = _Begun()
    after: list[str] = []

    def function() -> None:
        try:
            complete(held.work())
        finally:
            after.append("left in order")
            with pytest.raises(asyncio.CancelledError):
                complete(work())
            with pytest.raises(asyncio.CancelledError):
                check_cancelled()

    waiting = asyncio.ensure_future(in_thread(function))
    await asyncio.to_thread(held.begun.wait, 600)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (held.ended, after) == (["cancelled"], ["left in order"])


async def test_a_thread_returns_and_raises_what_its_function_does() -> None:
    given.set(5)
    check_cancelled()
    assert await in_thread(lambda: complete(work())) == (5, False)
    with pytest.raises(ValueError, match="of the work"):
        await in_thread(lambda: complete(work(fails=True)))
