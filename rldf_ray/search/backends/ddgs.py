"""The web, by DuckDuckGo: `ddgs`, with `pip install 'rldf-ray[web]'`.

The engine is pinned to that of Roy and Rehman 2025 (section 4.1). As in their code, half a second
passes between searches, and a failed one is tried again after 1, 2 and 4 seconds. What is found are
titles, addresses and snippets; no page is fetched.
"""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass, field
from typing import Any

import tenacity

from rldf_ray.search.backend import Hit, SearchBackend, SearchError, encodable

ENGINE = "duckduckgo"
PAUSE_S = 0.5
TRIES = 4
TIMEOUT_S = 20


@dataclass
class _Web:
    pause_s: float = PAUSE_S
    first_wait_s: float = 1.0
    name: str = "ddgs"
    # The web cannot be hashed: a rerun is the same through the journal alone.
    digest: str = ""
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _last: float = 0.0

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """The first `k` results at most.

        Raises:
            SearchError: DuckDuckGo could not be searched, in four tries.
        """
        # One line: a query is no place for control characters.
        asked = encodable(" ".join(query.split()))
        if not asked:
            return ()
        from ddgs.exceptions import DDGSException

        try:
            async for attempt in tenacity.AsyncRetrying(
                stop=tenacity.stop_after_attempt(TRIES),
                wait=tenacity.wait_exponential(multiplier=self.first_wait_s),
                retry=tenacity.retry_if_exception_type((DDGSException, OSError)),
                reraise=True,
            ):
                with attempt:
                    rows = await self._ask(asked)
        except (DDGSException, OSError) as error:
            raise SearchError(
                f"ddgs: DuckDuckGo gave no answer in {TRIES} tries ({error}); is the web "
                "reachable from here, and are there fewer searches than it allows?"
            ) from None
        return tuple(_hit(row, place) for place, row in enumerate(rows[:k]))

    async def _ask(self, query: str) -> list[dict[str, Any]]:
        async with self._turn:
            await asyncio.sleep(max(0.0, self._last + self.pause_s - time.monotonic()))
            try:
                return await asyncio.to_thread(_searched, query)
            finally:
                self._last = time.monotonic()


def _searched(query: str) -> list[dict[str, Any]]:
    """The engine's own results, in its order.

    The engine is called by itself: the library's `text` reports a refusal as nothing found.
    """
    from ddgs.engines import ENGINES
    from ddgs.exceptions import DDGSException

    engine = ENGINES["text"][ENGINE](
        proxy=os.environ.get("DDGS_PROXY"), timeout=TIMEOUT_S, verify=True
    )
    found = engine.search(query)
    if found is None:
        raise DDGSException("it refused the search")
    return [{"title": one.title, "href": one.href, "body": one.body} for one in found]


def _hit(row: dict[str, Any], place: int) -> Hit:
    return Hit(
        title=str(row.get("title", "")),
        text=str(row.get("body", "")),
        url=str(row.get("href", "")),
        # Only the order is known.
        score=-float(place),
        source="ddgs",
    )


def opened(argument: str) -> SearchBackend:
    """The web.

    Raises:
        SearchError: the library is not installed, or has no such engine.
    """
    try:
        from ddgs.engines import ENGINES
    except ImportError:
        raise SearchError(
            "ddgs needs a library: pip install 'rldf-ray[web]'; or search local:DIR"
        ) from None
    if ENGINE not in ENGINES["text"]:
        # It would silently take another engine.
        raise SearchError(f"ddgs: this version of ddgs has no engine {ENGINE!r}")
    return _Web()
