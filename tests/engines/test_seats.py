"""`Seats`: bounded requests at each engine, affinity kept, nothing lost or left waiting."""

from __future__ import annotations

import asyncio
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from rldf_ray.engines.seats import Seats, consistent_hash


def affinity_of(home: int, engines: int, skip: int = 0) -> str:
    seats = Seats(engines, each=1)
    names = (f"d{i}" for i in range(10_000) if seats.home(f"d{i}") == home)
    return [next(names) for _ in range(skip + 1)][-1]


async def test_requests_of_a_debate_go_to_one_engine_while_it_has_room() -> None:
    seats = Seats(engines=4, each=8)
    assert {await seats.take("debate-7") for _ in range(8)} == {seats.home("debate-7")}


async def test_a_full_home_spills_to_the_emptiest_engine() -> None:
    seats = Seats(engines=3, each=2)
    other = affinity_of(1, 3)
    await seats.take(other)
    taken = [await seats.take(affinity_of(0, 3)) for _ in range(3)]
    assert taken == [0, 0, 2]


async def test_no_engine_gets_more_than_its_seats_and_the_rest_waits() -> None:
    seats = Seats(engines=2, each=3)
    waiting = [asyncio.create_task(seats.take(f"d{i}")) for i in range(10)]
    await asyncio.sleep(0)
    assert seats.taken == (3, 3) and seats.waiting == 4
    seats.leave(0)
    await asyncio.sleep(0)
    assert seats.taken == (3, 3) and seats.waiting == 3
    for task in waiting:
        task.cancel()


async def test_a_free_seat_goes_to_the_engines_own_queue_first() -> None:
    seats = Seats(engines=2, each=1)
    for home in (0, 1):
        await seats.take(affinity_of(home, 2))
    stranger = asyncio.create_task(seats.take(affinity_of(0, 2, skip=1)))
    await asyncio.sleep(0)
    own = asyncio.create_task(seats.take(affinity_of(1, 2, skip=1)))
    await asyncio.sleep(0)
    seats.leave(1)
    assert await own == 1 and not stranger.done()
    seats.leave(1)
    assert await stranger == 1  # rather than letting an engine idle


async def test_a_closed_engine_gets_nothing_until_it_is_open_again() -> None:
    seats = Seats(engines=2, each=1)
    seats.close(0)
    assert await seats.take(affinity_of(0, 2)) == 1
    waiting = asyncio.create_task(seats.take(affinity_of(0, 2)))
    await asyncio.sleep(0)
    assert not waiting.done()
    seats.open(0)
    assert await waiting == 0


async def test_a_request_cancelled_while_it_waits_takes_no_seat() -> None:
    seats = Seats(engines=1, each=1)
    await seats.take("a")
    waiting = asyncio.create_task(seats.take("b"))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    seats.leave(0)
    assert seats.taken == (0,)


async def test_a_request_cancelled_in_the_moment_of_its_turn_gives_the_seat_back() -> None:
    seats = Seats(engines=1, each=1)
    await seats.take("a")
    first, second = (asyncio.create_task(seats.take(name)) for name in "bc")
    await asyncio.sleep(0)
    seats.leave(0)
    first.cancel()
    assert await second == 0
    assert seats.taken == (1,)


@given(
    engines=st.integers(1, 5),
    each=st.integers(1, 4),
    requests=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=60),
)
@settings(deadline=None, max_examples=60)
def test_every_request_is_served_once_within_the_bounds(
    engines: int, each: int, requests: list[tuple[int, int]]
) -> None:
    served: Counter[int] = Counter()
    seats = Seats(engines, each)

    async def one(number: int, debate: int, steps: int) -> None:
        engine = await seats.take(f"d{debate}")
        assert max(seats.taken) <= each
        for _ in range(steps):
            await asyncio.sleep(0)
        served[number] += 1
        seats.leave(engine)

    async def all_of_them() -> None:
        await asyncio.wait_for(
            asyncio.gather(*(one(i, *request) for i, request in enumerate(requests))), 60
        )

    asyncio.run(all_of_them())
    assert served == dict.fromkeys(range(len(requests)), 1)
    assert set(seats.taken) <= {0}


async def test_an_engine_that_is_added_takes_those_that_wait() -> None:
    seats = Seats(engines=1, each=2)
    waiting = [asyncio.create_task(seats.take(f"d{i}")) for i in range(4)]
    await asyncio.sleep(0)
    assert seats.another_would_fill and seats.taken == (2,)
    seats.grow()
    assert [await task for task in waiting] == [0, 0, 1, 1]
    assert not seats.another_would_fill


@given(key=st.integers(0, 2**32 - 1), buckets=st.integers(1, 100))
def test_another_bucket_moves_keys_to_itself_alone(key: int, buckets: int) -> None:
    before, after = consistent_hash(key, buckets), consistent_hash(key, buckets + 1)
    assert 0 <= before < buckets
    assert after in (before, buckets)


def test_engines_get_about_equal_shares_of_debates() -> None:
    seats = Seats(engines=8, each=1)
    shares = Counter(seats.home(f"age/{i:05d}") for i in range(8_000))
    assert len(shares) == 8 and max(shares.values()) < 1.2 * min(shares.values())
