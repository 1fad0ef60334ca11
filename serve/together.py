"""Work that is done together and ends together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

Result = TypeVar("Result")


async def together(*parts: Awaitable[Result]) -> list[Result]:
    """The results of `parts`, in their order; once one fails, the others are cancelled.

    `asyncio.gather` lets them go on, for nobody.
    """
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
