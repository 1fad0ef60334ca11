"""Work is carried out to its end whether or not a loop runs already."""

from __future__ import annotations

import asyncio
import contextvars
import threading

import pytest

from rldf_ray.loops import complete

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
