"""Pieces of a stream that are sent together.

Every message from an engine passes two more processes on its way out, which costs four to five
milliseconds of processor time in all (2 cores, Ray 2.60), and an engine on a CPU that computes with
all cores waits for the one that was taken from it: with a message for every token, 8 streams on 2
cores had three quarters of bare vLLM's tokens. So a replica sends so many messages a second, and
tokens of a stream go together. It sends more where there are so many streams that each would be
silent for as long as one whose engine hangs.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass

from rldf_ray.apps.serve.engines import EngineRequest, Piece, Stream, is_error

# A twentieth of the machine, at five milliseconds each.
MESSAGES_PER_CORE = 10
# A message may be late by twice as much again before the API takes the engine for one that hangs.
SHARE_OF_IDLE = 1 / 3


@dataclass
class Pace:
    """What a replica keeps to.

    Attributes:
        longest_s: no stream is silent for longer while there is something to send.
        streams: that have begun and have not ended.
    """

    messages_per_s: float
    longest_s: float = math.inf
    streams: int = 0

    @classmethod
    def of(cls, messages_per_s: float | None, idle_s: float) -> Pace:
        """The pace that the settings ask for, or the one for this machine.

        Args:
            idle_s: the API ends a stream that is silent for so long.
        """
        of_machine = MESSAGES_PER_CORE * (os.cpu_count() or 1)
        return cls(messages_per_s or of_machine, idle_s * SHARE_OF_IDLE)

    async def keep(self, pieces: Stream, request: EngineRequest) -> Stream:
        """The pieces of the answer to `request`; a stream's at its share of the messages."""
        streams, begun = bool(request.body.get("stream")), False
        paced_or_not = paced(pieces, self._interval_s) if streams else pieces
        try:
            async with aclosing(paced_or_not) as found:
                async for piece in found:
                    if streams and not begun:
                        begun = True
                        self.streams += 1
                    yield piece
        finally:
            self.streams -= begun

    def _interval_s(self) -> float:
        return min(self.streams / self.messages_per_s, self.longest_s)


async def paced(stream: Stream, interval_s: Callable[[], float]) -> Stream:
    """The first words at once, then events together, `interval_s` or more between two messages.

    What is no list of events (a whole answer, an error) is passed on as it is. Closing this closes
    `stream`.
    """
    events: list[str] = []
    last: list[Piece] = []
    news = asyncio.Event()

    async def read() -> None:
        async for piece in stream:
            if not isinstance(piece, list):
                last.append(piece)
                return
            events.extend(piece)
            news.set()

    reading: asyncio.Task[None] | None = None
    clock = asyncio.get_running_loop().time
    try:
        first = await _first_words(stream)
        if not first:
            return
        yield first
        sent_at = clock()
        reading = asyncio.create_task(read())
        reading.add_done_callback(lambda task: news.set())
        while not reading.done() or events:
            await news.wait()
            wait_s = sent_at + interval_s() - clock()
            if wait_s > 0:
                await asyncio.wait({reading}, timeout=wait_s)  # the end is not waited for
            news.clear()
            if reading.done():
                news.set()
            if events:
                together = events[:]
                events.clear()
                yield together
                sent_at = clock()
        reading.result()
        for piece in last:
            yield piece
    finally:
        if reading is not None:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        await stream.aclose()


async def _first_words(stream: Stream) -> Piece:
    """Events up to the first with a word in it, or what is no list of events; [] where none comes.

    A chat begins with who speaks: told alone, the words would wait for the next message, and a
    request whose engine is lost in between would count as begun.
    """
    events: list[str] = []
    async for piece in stream:
        if not isinstance(piece, list) or is_error(piece):
            return piece
        events.extend(piece)
        if any('"content":""' not in event for event in piece):
            break
    return events
