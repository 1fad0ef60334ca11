"""Pieces of a stream go together when there are many, and none is lost, added or out of order."""

from __future__ import annotations

import asyncio
import selectors
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rldf_ray.apps.serve.caller import Caller
from rldf_ray.apps.serve.engines import EngineRequest, Piece, Stream
from rldf_ray.apps.serve.pacing import Pace, paced
from rldf_ray.apps.serve.scripted import ScriptedEngines
from tests.serve.conftest import Start


class Source:
    """A stream of `number` events, a pause before each; knows whether it was closed."""

    def __init__(self, number: int, pause_s: float = 0.0, error: Exception | None = None) -> None:
        self.number, self.pause_s, self.error = number, pause_s, error
        self.closed = False

    async def pieces(self) -> Stream:
        try:
            for i in range(self.number):
                await asyncio.sleep(self.pause_s)
                yield [f"{i}"]
            if self.error is not None:
                raise self.error
        finally:
            self.closed = True


async def messages(stream: Stream) -> list[Piece]:
    return [piece async for piece in stream]


@given(number=st.integers(0, 30), interval_s=st.sampled_from([0.0, 0.001, 0.02]))
@settings(deadline=None, max_examples=25)
def test_everything_arrives_once_and_in_order(number: int, interval_s: float) -> None:
    source = Source(number, 0.0005)
    found: Any = asyncio.run(messages(paced(source.pieces(), lambda: interval_s)))
    assert [event for message in found for event in message] == [f"{i}" for i in range(number)]
    assert source.closed


async def test_the_first_piece_is_not_held_back_and_the_end_is_not_waited_for() -> None:
    found = await messages(paced(Source(20).pieces(), lambda: 3600))
    assert [len(message) for message in found] == [1, 19]


WHO = 'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}'


async def test_who_speaks_is_told_with_the_first_words() -> None:
    async def chat() -> Stream:
        for events in ([WHO], [WHO], ["Hello"], [" there"]):
            yield events

    found = await messages(paced(chat(), lambda: 3600))
    assert found == [[WHO, WHO, "Hello"], [" there"]]


async def test_an_answer_without_words_is_told_whole() -> None:
    async def chat() -> Stream:
        yield [WHO]

    assert await messages(paced(chat(), lambda: 3600)) == [[WHO]]


@pytest.mark.parametrize(
    "error", [{"error": {"code": 400}}, ['data: {"error":{"code":400}}']], ids=["answer", "event"]
)
async def test_an_error_after_who_speaks_is_the_first_piece(error: Piece) -> None:
    async def chat() -> Stream:
        yield [WHO]
        yield error

    assert await messages(paced(chat(), lambda: 3600)) == [error]


async def test_without_an_interval_every_piece_goes_by_itself() -> None:
    found = await messages(paced(Source(5, 0.01).pieces(), lambda: 0))
    assert found == [["0"], ["1"], ["2"], ["3"], ["4"]]


async def test_an_error_comes_after_what_was_made_before_it() -> None:
    stream = paced(Source(3, error=ValueError("broken")).pieces(), lambda: 3600)
    assert [await anext(stream), await anext(stream)] == [["0"], ["1", "2"]]
    with pytest.raises(ValueError, match="broken"):
        await anext(stream)


async def test_what_is_no_list_of_events_is_passed_on() -> None:
    async def refused() -> Stream:
        yield {"error": {"code": 400}}

    assert await messages(paced(refused(), lambda: 1)) == [{"error": {"code": 400}}]


STREAMED = EngineRequest("chat", {"stream": True})


async def test_closing_it_closes_the_stream() -> None:
    source, pace = Source(1000, 0.001), Pace(10)
    stream = pace.keep(source.pieces(), STREAMED)
    await anext(stream)
    assert pace.streams == 1
    await stream.aclose()
    assert source.closed and pace.streams == 0


@pytest.mark.parametrize("pause_s", [0.001, 3600])
async def test_a_reader_that_is_cancelled_closes_the_stream(pause_s: float) -> None:
    """As Serve does where a client has gone: while pieces come, and while none does."""
    source, pace, read = Source(10_000, 0.0005), Pace(100), asyncio.Event()

    async def reader() -> None:
        async for _ in pace.keep(source.pieces(), STREAMED):
            read.set()
            source.pause_s = pause_s

    reading = asyncio.create_task(reader())
    await read.wait()
    await asyncio.sleep(0.03)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    assert reading.cancelled() and source.closed and pace.streams == 0


async def test_a_whole_answer_is_not_counted_as_a_stream() -> None:
    async def whole() -> Stream:
        yield {"choices": []}

    pace = Pace(10)
    answer = pace.keep(whole(), EngineRequest("chat", {}))
    assert await anext(answer) == {"choices": []} and pace.streams == 0
    await answer.aclose()


async def test_a_stream_that_waits_for_its_first_word_is_not_counted() -> None:
    began = asyncio.Event()

    async def waiting() -> Stream:
        began.set()
        await asyncio.sleep(3600)
        yield ["never"]

    pace = Pace(10)
    reading = asyncio.create_task(messages(pace.keep(waiting(), STREAMED)))
    await began.wait()
    assert pace.streams == 0
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    assert pace.streams == 0


class Skipping(selectors.DefaultSelector):
    """Time passes by being waited for: nothing takes any that does not sleep."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        self.now += timeout or 0.0
        return super().select(0 if timeout else timeout)


class SkippingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._skipping = Skipping()
        super().__init__(self._skipping)

    def time(self) -> float:
        return self._skipping.now


@pytest.mark.parametrize("streams", [1, 5, 60])
def test_streams_that_share_few_messages_are_not_taken_for_ones_that_hang(
    start: Start, streams: int
) -> None:
    engines = ScriptedEngines(delay_s=0.3, pace=Pace.of(1, idle_s=2))
    service = start(engines, limits={"idle_s": 2}).service
    body = {"messages": [{"role": "user", "content": "Hello"}], "stream": True, "n": 3}

    async def one() -> list[str]:
        _, events = await service.stream(Caller(), "policy", "chat", body, False)
        return [event async for event in events]

    async def all_of_them() -> list[list[str]]:
        return await asyncio.gather(*(one() for _ in range(streams)))

    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        found = runner.run(all_of_them())
        assert runner.get_loop().time() > 2 * 2
    assert all(events[-1] == "data: [DONE]\n\n" for events in found)
    assert engines.pace.streams == 0
