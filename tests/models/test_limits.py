"""Rates, budgets and the number of requests at once, without a server or a clock of their own."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rldf_ray.models.base import BudgetSpentError, ChatRequest, Message, Usage
from rldf_ray.models.concurrency import ConcurrencyLimiter
from rldf_ray.models.limits import Budget, Rate, estimated
from rldf_ray.plan import Endpoint
from rldf_ray.storage.journal import Journal
from tests.fakes import completion

REQUEST = ChatRequest(
    messages=(Message("user", "x" * 300),), max_tokens=100
)  # 100 + 100 tokens at most


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr("rldf_ray.models.limits.asyncio.sleep", self.sleep)

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


async def test_a_minutes_allowance_passes_at_once_and_the_rest_at_the_rate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    rate = Rate(60, clock)
    for _ in range(60):
        await rate.take(1)
    assert clock.now == 0
    for _ in range(30):
        await rate.take(1)
    assert clock.now == pytest.approx(30)


async def test_what_was_not_used_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    rate = Rate(600, clock)
    await rate.take(600)
    rate.correct(500)
    await rate.take(500)
    assert clock.now == 0
    await rate.take(10)
    assert clock.now == pytest.approx(1)


async def test_more_than_a_minutes_allowance_waits_for_a_full_bucket_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    rate = Rate(60, clock)
    await rate.take(200)
    await rate.take(60)
    assert clock.now == pytest.approx(200)


async def test_no_limit_is_no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    rate = Rate(None, clock)
    await asyncio.gather(*(rate.take(1e9) for _ in range(100)))
    assert clock.now == 0


async def test_an_idle_hour_saves_up_one_minutes_allowance(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    rate = Rate(60, clock)
    clock.now = 3600.0
    await rate.take(60)
    assert clock.now == 3600
    await rate.take(30)
    assert clock.now == pytest.approx(3630)


@given(takes=st.lists(st.tuples(st.floats(0, 200), st.floats(0.1, 60)), min_size=1, max_size=40))
@settings(deadline=None, max_examples=60)
def test_no_window_lets_more_than_its_share_pass(takes: list[tuple[float, float]]) -> None:
    """Whatever pauses lie between: in any window a full bucket, and one a second."""
    with pytest.MonkeyPatch.context() as patch:
        clock = Clock(patch)
        rate = Rate(60, clock)

        async def all_of_them() -> None:
            passed: list[tuple[float, float]] = []
            for pause, amount in takes:
                clock.now += pause
                await rate.take(amount)
                passed.append((clock.now, amount))
                for first, (began, _) in enumerate(passed):
                    through = sum(amount for _, amount in passed[first:])
                    assert through <= 60 + clock.now - began + 1e-6

        asyncio.run(all_of_them())


# ---- the budget


def test_a_budget_in_tokens_stops_before_it_is_overspent() -> None:
    budget = Budget(tokens=450)
    with budget.reserved(REQUEST), budget.reserved(REQUEST):
        with pytest.raises(BudgetSpentError, match="450 tokens"), budget.reserved(REQUEST):
            pass
        budget.spent = budget.spent + Usage(50, 0, 50)
    with budget.reserved(REQUEST):
        pass


def test_a_budget_is_spent_to_its_last_token_and_cent() -> None:
    """A request takes 200 tokens and 0.0011 USD at most: what it takes exactly is enough."""
    prices = {"prompt_price": 1.0, "generated_price": 10.0}
    for enough in (Budget(tokens=200), Budget(usd=0.0011, **prices)):
        with enough.reserved(REQUEST):
            pass
    for short in (Budget(tokens=199), Budget(usd=0.001099, **prices)):
        with pytest.raises(BudgetSpentError), short.reserved(REQUEST):
            pass


def test_a_budget_in_money_counts_both_prices_and_says_the_field() -> None:
    budget = Budget(usd=0.001, prompt_price=1.0, generated_price=10.0)  # a request: 0.0011 USD
    with pytest.raises(BudgetSpentError, match=r"endpoint\.budget_usd"), budget.reserved(REQUEST):
        pass
    assert budget.cost(Usage(1_000_000, 0, 100_000)) == pytest.approx(2.0)


def test_what_earlier_starts_spent_counts(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "calls.jsonl")
    for number, model in enumerate(("mine", "other", "also mine")):
        sample = asdict(completion("hi", usage=Usage(80, 10, 20), model=model))
        journal.append(f"d/{number}", {"request": "r", "samples": [sample]})
    budget = Budget.of(Endpoint(budget_tokens=500), ("mine", "also mine"), journal)
    journal.close()
    assert budget.spent == Usage(160, 20, 40)
    with budget.reserved(REQUEST):
        pass
    with pytest.raises(BudgetSpentError), budget.reserved(REQUEST), budget.reserved(REQUEST):
        pass


def test_an_estimate_counts_every_sample() -> None:
    assert estimated(REQUEST) == Usage(prompt=100, generated=100)
    assert estimated(ChatRequest(messages=REQUEST.messages, max_tokens=7, n=3)).generated == 21


# ---- how many at once


async def under_way_together(limiter: ConcurrencyLimiter, number: int) -> int:
    """Start `number` requests that stay; how many got a slot."""
    inside = 0

    async def one() -> None:
        nonlocal inside
        async with limiter.slot():
            inside += 1
            await asyncio.sleep(60)

    tasks = [asyncio.create_task(one()) for _ in range(number)]
    for _ in range(5):
        await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return inside


async def steady(limiter: ConcurrencyLimiter, answers: int, seconds: float) -> None:
    """Answers that take `seconds` each, with as many requests under way as there is room for."""
    for _ in range(answers):
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(limiter.room):
                await stack.enter_async_context(limiter.slot())
            limiter.answered(seconds)


async def test_room_grows_with_answers_up_to_the_most() -> None:
    limiter = ConcurrencyLimiter(10)
    assert await under_way_together(limiter, 20) == 4
    await steady(limiter, 200, 1.0)
    assert limiter.room == 10 and await under_way_together(limiter, 20) == 10


async def test_a_round_of_answers_makes_room_for_one_more() -> None:
    """Each makes room for a share of one, by the room there is: 4 answers are not quite enough."""
    limiter = ConcurrencyLimiter(64)
    await steady(limiter, 4, 1.0)
    assert limiter.room == 4
    await steady(limiter, 1, 1.0)
    assert limiter.room == 5
    await steady(limiter, 4, 1.0)
    assert limiter.room == 5
    await steady(limiter, 1, 1.0)
    assert limiter.room == 6


async def test_one_burst_of_refusals_halves_the_room_once() -> None:
    now = 0.0
    limiter = ConcurrencyLimiter(64, lambda: now)
    await steady(limiter, 2000, 1.0)
    room, now = limiter.room, 5.0
    for _ in range(room):
        limiter.refused(began=4.0)
    assert limiter.room == room // 2
    now = 6.0
    limiter.refused(began=5.5)
    assert limiter.room == room // 4


async def test_the_room_never_closes() -> None:
    now = 0.0
    limiter = ConcurrencyLimiter(8, lambda: now)
    for second in range(20):
        now = float(second)
        limiter.refused(began=now)
    assert limiter.room == 1 and await under_way_together(limiter, 3) == 1


async def test_an_endpoint_that_gets_slower_gets_no_more() -> None:
    limiter = ConcurrencyLimiter(64)
    await steady(limiter, 20, 1.0)
    room = limiter.room
    await steady(limiter, 10, 30.0)  # the first of them still count as quick
    slow = limiter.room
    await steady(limiter, 300, 30.0)
    assert limiter.room == slow <= room + 2


async def test_room_that_nobody_uses_does_not_grow() -> None:
    limiter = ConcurrencyLimiter(64)
    for _ in range(500):
        async with limiter.slot():
            limiter.answered(1.0)
    assert limiter.room == 4


async def test_a_freed_slot_goes_to_the_next_in_line_and_cancelled_ones_lose_none() -> None:
    limiter = ConcurrencyLimiter(1)
    order: list[int] = []

    async def one(number: int) -> None:
        async with limiter.slot():
            order.append(number)
            await asyncio.sleep(0)

    tasks = [asyncio.create_task(one(i)) for i in range(6)]
    await asyncio.sleep(0)
    tasks[2].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert order == [0, 1, 3, 4, 5]
