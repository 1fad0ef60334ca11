"""What keeps calls to an endpoint within bounds: a rate, a budget, and how many at once."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from rldf_ray.models.base import BudgetSpentError, ChatRequest, Usage
from rldf_ray.models.bucket import Bucket
from rldf_ray.models.journaled import completions
from rldf_ray.plan import Endpoint
from rldf_ray.plan.speaking import SpeakingPlan
from rldf_ray.storage.journal import Journal, entries_in

# English text has about four characters a token; fewer err on the side of the limit.
CHARACTERS_A_TOKEN = 3.0
FIRST_LIMIT = 4.0
# An endpoint that answers this much slower than it did at its best has a queue of its own.
SLOWER = 2.0


def estimated(request: ChatRequest) -> Usage:
    """The most tokens a request will likely take, before it is sent."""
    characters = sum(len(message.content) for message in request.messages)
    return Usage(
        prompt=math.ceil(characters / CHARACTERS_A_TOKEN),
        generated=request.n * request.max_tokens,
    )


class Rate:
    """A minute's allowance, which those who come wait for.

    Args:
        a_minute: None lets everything pass at once.
    """

    def __init__(self, a_minute: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._bucket = None if a_minute is None else Bucket(per_minute=a_minute, clock=clock)

    async def take(self, amount: float) -> None:
        """Wait until `amount` may pass. More than a minute's allowance waits for a full bucket."""
        bucket = self._bucket
        if bucket is None:
            return
        # Taken first: those who come later wait behind it.
        wait_s = bucket.wait_s(min(amount, bucket.per_minute))
        bucket.take(amount)
        await asyncio.sleep(wait_s)

    def correct(self, amount: float) -> None:
        """Give back (or, below 0, take) what an estimate was wrong by."""
        if self._bucket is not None:
            self._bucket.take(-amount)


@dataclass(frozen=True)
class _Together:
    """Runs below a folder that have one budget, and the names of all their models that are paid."""

    folder: Path
    models: frozenset[str]

    def journals_beside(self, journal: Journal) -> list[Path]:
        """Those of the other runs; they do not change, as one run speaks at a time."""
        own = journal.path.resolve()
        found = sorted(self.folder.resolve().rglob("journal/calls.jsonl"))
        return [path for path in found if path != own]


_together: ContextVar[_Together | None] = ContextVar("_together", default=None)


@contextmanager
def spent_together(folder: Path, plans: Iterable[SpeakingPlan]) -> Iterator[None]:
    """In the block a budget is that of all runs below `folder`, which speak one after another.

    Args:
        plans: of these runs.
    """
    speakers = (speaker for plan in plans for speaker in plan.speakers())
    models = frozenset(speaker.model for speaker in speakers if speaker.paid)
    token = _together.set(_Together(folder, models))
    try:
        yield
    finally:
        _together.reset(token)


@dataclass(kw_only=True)
class Budget:
    """What a run may spend at an endpoint, over all its starts and all its models there.

    Within `spent_together` it is what all runs of a folder may spend.

    Attributes:
        tokens: most tokens, prompt and answer; None is no limit.
        usd: most money; None is no limit.
        prompt_price, generated_price: USD a million tokens.
        spent: by finished calls.
        where: the folder of the runs that have it together; None where it is one run's.
    """

    tokens: int | None = None
    usd: float | None = None
    prompt_price: float = 0.0
    generated_price: float = 0.0
    spent: Usage = field(default_factory=Usage)
    where: Path | None = None
    _reserved: Usage = field(default_factory=Usage)

    @classmethod
    def of(cls, endpoint: Endpoint, models: Collection[str], journal: Journal) -> Budget:
        """The endpoint's budget, less what the journal says has been spent on its `models`.

        Other runs' journals count as well where they have it together.
        """
        together = _together.get()
        budget = cls(
            tokens=endpoint.budget_tokens,
            usd=endpoint.budget_usd,
            prompt_price=endpoint.prompt_price or 0.0,
            generated_price=endpoint.generated_price or 0.0,
            where=None if together is None else together.folder,
        )
        if (budget.tokens, budget.usd) != (None, None):
            others = () if together is None else together.journals_beside(journal)
            paid = {*models, *(() if together is None else together.models)}
            for entry in chain(journal.entries(), *map(entries_in, others)):
                for sample in completions(entry.get("samples")) or ():
                    if sample.model in paid:
                        budget.spent = budget.spent + sample.usage
        return budget

    @contextmanager
    def reserved(self, request: ChatRequest) -> Iterator[None]:
        """Hold back what `request` may take while it is under way.

        Raises:
            BudgetSpentError: it would not fit; nothing was sent.
        """
        most = estimated(request)
        self._check(self.spent + self._reserved + most)
        self._reserved = self._reserved + most
        try:
            yield
        finally:
            self._reserved = self._reserved - most

    def cost(self, used: Usage) -> float:
        """USD."""
        return (used.prompt * self.prompt_price + used.generated * self.generated_price) / 1e6

    def _check(self, then: Usage) -> None:
        if self.tokens is not None and then.total > self.tokens:
            raise BudgetSpentError(
                self._spent_message("endpoint.budget_tokens", f"{self.tokens} tokens")
            )
        if self.usd is not None and self.cost(then) > self.usd:
            raise BudgetSpentError(self._spent_message("endpoint.budget_usd", f"{self.usd:g} USD"))

    def _spent_message(self, name: str, limit: str) -> str:
        spent = self.spent.total
        money = f", {self.cost(self.spent):.4f} USD" if self.usd is not None else ""
        by = "" if self.where is None else f" by all runs in {self.where}"
        return (
            f"the budget of {limit} ({name}) does not cover the next call: {spent} tokens{money} "
            f"are spent{by}; what was finished is kept, and the same command with a higher {name} "
            "continues"
        )


class ConcurrencyLimiter:
    """How many requests an endpoint bears at once: additive increase, halving on refusal.

    Every answer makes room for a fraction of one more, as long as the room is used and answers
    come about as fast as they did at best; a refusal or a timeout halves it, once for all the
    requests that were under way together.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = float(most)
        self._room = min(FIRST_LIMIT, self._most)
        self._under_way = 0
        self._queue: deque[asyncio.Future[None]] = deque()
        self._clock = clock
        self._halved_at = -math.inf
        self._latency_s: float | None = None
        self._best_s = math.inf

    @property
    def room(self) -> int:
        return int(self._room)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """One of them; waits for its turn."""
        if self._under_way >= self.room or self._queue:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._queue.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._under_way -= 1
                    self._wake()
                raise
        else:
            self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            self._wake()

    def answered(self, seconds: float) -> None:
        """A request was answered after `seconds`."""
        before = seconds if self._latency_s is None else self._latency_s
        self._latency_s = 0.8 * before + 0.2 * seconds
        self._best_s = min(self._best_s, self._latency_s)
        if self._latency_s <= SLOWER * self._best_s and self._under_way >= self.room:
            self._room = min(self._most, self._room + 1 / self._room)

    def refused(self, began: float) -> None:
        """A request that began at `began` was turned away for now, or got no answer in time."""
        if began >= self._halved_at:
            self._room = max(1.0, self._room / 2)
            self._halved_at = self._clock()

    def now(self) -> float:
        return self._clock()

    def _wake(self) -> None:
        while self._queue and self._under_way < self.room:
            turn = self._queue.popleft()
            if not turn.done():
                self._under_way += 1
                turn.set_result(None)
