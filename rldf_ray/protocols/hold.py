"""Many items at once.

    items --(in_flight at once, in their order)--> hold(item) --> keep(place, what it came to)

Each item is a coroutine that waits for nothing but its own models, so no round of one waits for
another's. The engines batch the requests of all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from rldf_ray.protocols.seam import Cast, Item, StatementProtocol
from rldf_ray.records import Statement

One = TypeVar("One")
Kept = TypeVar("Kept")


async def hold_all(
    protocol: StatementProtocol,
    items: Sequence[Item],
    cast: Cast,
    keep: Callable[[int, list[Statement]], None],
) -> None:
    """Hold all items of a protocol that makes statements, `debate.in_flight` of them at once.

    Raises:
        ModelError: the first one.
    """

    async def hold(item: Item) -> list[Statement]:
        return await protocol.hold(item, cast)

    await hold_each(hold, items, cast.plan.debate.in_flight, keep)


async def hold_each(
    hold: Callable[[One], Awaitable[Kept]],
    items: Sequence[One],
    in_flight: int,
    keep: Callable[[int, Kept], None],
) -> None:
    """Hold all items, `in_flight` of them at once.

    The first failure ends the others; what was finished is in the journal of calls, so the same
    command goes on from there.

    Args:
        keep: called with an item's place and what it came to when it has ended, in any order;
            nothing of an item stays in memory after that.

    Raises:
        ModelError: the first one.
    """
    waiting = iter(enumerate(items))

    async def one_after_another() -> None:
        for place, item in waiting:
            keep(place, await hold(item))

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(in_flight, len(items))):
                group.create_task(one_after_another())
    except ExceptionGroup as failures:
        raise _first(failures) from None


def _first(failures: ExceptionGroup[Exception]) -> Exception:
    """One cause usually fails many items at once, and many requests of one; the first tells."""
    first = failures.exceptions[0]
    return _first(first) if isinstance(first, ExceptionGroup) else first
