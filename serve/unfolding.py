"""A dialogue as it unfolds: server-sent events, in a turn of its own, for a bounded time.

what the dialogue tells ... -> done      (or error)
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from rldf_ray.apps.serve.caller import Caller
from rldf_ray.apps.serve.service import Service
from rldf_ray.errors import UserError
from rldf_ray.prompts import own_prompts
from rldf_ray.storage.json_text import json_text

Tell = Callable[[str, dict[str, Any]], None]

log = logging.getLogger("rldf.serve")


class BusyError(UserError):
    """A debate did not get its turn."""


async def events(
    hold: Callable[[Tell], Awaitable[None]], service: Service, caller: Caller
) -> AsyncIterator[str]:
    """The events that `hold` tells, once its turn has come; if the client goes, it ends."""
    queue: asyncio.Queue[str | None] = asyncio.Queue()

    def tell(kind: str, value: dict[str, Any]) -> None:
        queue.put_nowait(f"event: {kind}\ndata: {json_text(value)}\n\n")

    holding = asyncio.create_task(_held(hold, service, caller, tell))
    holding.add_done_callback(lambda task: queue.put_nowait(None))
    try:
        while (event := await queue.get()) is not None:
            yield event
    finally:
        holding.cancel()
        await asyncio.gather(holding, return_exceptions=True)


async def _held(
    hold: Callable[[Tell], Awaitable[None]], service: Service, caller: Caller, tell: Tell
) -> None:
    try:
        async with _turn(service, caller), _time(service):
            with own_prompts(service.settings.prompts):
                await hold(tell)
        tell("done", {"tokens": caller.tokens})
    except UserError as error:
        tell("error", {"message": str(error)})
    except Exception:
        log.exception("a dialogue failed")
        tell("error", {"message": "internal error; the server's log has it"})


@asynccontextmanager
async def _turn(service: Service, caller: Caller) -> AsyncIterator[None]:
    """A debate's turn; while it waits it holds a place among the requests under way.

    Raises:
        BusyError: it did not come in time, or the caller's key has as many as it may.
    """
    limits = service.settings.limits
    with _share(service, caller):
        try:
            async with asyncio.timeout(limits.debate_wait_s):
                await service.debates.acquire()
        except TimeoutError:
            wait_s = limits.debate_wait_s
            raise BusyError(f"other debates were under way for {wait_s:g} s: ask again") from None
        try:
            yield
        finally:
            service.debates.release()


@asynccontextmanager
async def _time(service: Service) -> AsyncIterator[None]:
    """Raise BusyError where a debate takes too long, so that its turn is another's."""
    most_s = service.settings.limits.debate_s
    try:
        async with asyncio.timeout(most_s):
            yield
    except TimeoutError:
        raise BusyError(f"the debate was not done in {most_s:g} s, and ends here") from None


@contextmanager
def _share(service: Service, caller: Caller) -> Iterator[None]:
    """One of the debates that a key may have; who needs no key has no share."""
    if caller.key is None:
        yield
        return
    most, name = service.settings.limits.debates_per_key, caller.key.sha256
    if service.debates_of[name] >= most:
        raise BusyError(f"{most} debates of this key are under way or wait: ask again")
    service.debates_of[name] += 1
    try:
        yield
    finally:
        service.debates_of[name] -= 1
        service.debates_of += Counter()  # forgets those that have none
