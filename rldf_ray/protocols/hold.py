"""Many items at once.

    items --(in_flight at once, in their order)--> hold(item) --> keep(place, statements)

Each item is a coroutine that waits for nothing but its own models, so no round of one waits for
another's. The engines batch the requests of all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from rldf_ray.protocols.seam import Cast, Item, StatementProtocol
from rldf_ray.records import Statement


async def hold_all(
    protocol: StatementProtocol,
    items: Sequence[Item],
    cast: Cast,
    keep: Callable[[int, list[Statement]], None],
) -> None:
    """Hold all items, `debate.in_flight` of them at once.

    The first failure ends the others; what was finished is in the journal of calls, so the same
    command goes on from there.

    Args:
        keep: called with an item's place and its statements when it has ended, in any order;
            nothing of an item stays in memory after that.

    Raises:
        ModelError: the first one.
    """
    waiting = iter(enumerate(items))

    async def one_after_another() -> None:
        for place, item in waiting:
            keep(place, await protocol.hold(item, cast))

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(cast.plan.debate.in_flight, len(items))):
                group.create_task(one_after_another())
    except ExceptionGroup as failures:
        # One cause usually fails many items at once; the first tells the story.
        raise failures.exceptions[0] from None
