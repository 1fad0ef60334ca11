"""The tries of calls to one model of an endpoint: when they are sent, and what they take."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from rldf_ray.models.base import ChatRequest, Completion, ModelError, Usage
from rldf_ray.models.concurrency import ConcurrencyLimiter
from rldf_ray.models.limits import Budget, Rate, estimated
from rldf_ray.models.openai_checked import MalformedReplyError, Reply
from rldf_ray.models.openai_connection import Connection
from rldf_ray.models.openai_reply import used_for
from rldf_ray.models.openai_retry import worth_another_try
from rldf_ray.models.openai_spent import spent_without_answer
from rldf_ray.plan import Endpoint


@dataclass
class Call:
    """One call while it is under way.

    Attributes:
        taken: by all its replies, in tokens.
        samples: what is made of them, once it is known.
    """

    taken: Usage = field(default_factory=Usage)
    samples: tuple[Completion, ...] = ()


class Tries:
    """Sends requests, as fast and as many at once as the endpoint's limits allow."""

    def __init__(
        self, model: str, endpoint: Endpoint, connection: Connection, budget: Budget
    ) -> None:
        self._model = model
        self._connection = connection
        self._budget = budget
        self._limiter = ConcurrencyLimiter(endpoint.in_flight)
        self._requests = Rate(endpoint.requests_per_minute)
        self._tokens = Rate(endpoint.tokens_per_minute)
        # Those of calls that wait for their turn or for the next try: nothing of theirs is sent.
        self._waiting: set[asyncio.Task[Any]] = set()
        self._ended: asyncio.AbstractEventLoop | None = None

    @asynccontextmanager
    async def call(self) -> AsyncIterator[Call]:
        """A call, which has one of the endpoint's slots; what it took for nothing is kept as lost.

        The slot is kept while waiting for the next try: a busy server gets fewer requests.
        """
        self._check_not_ended()
        call, task = Call(), _task()
        self._waiting.add(task)
        try:
            async with self._limiter.slot():
                yield call
        finally:
            self._waiting.discard(task)
            used = sum((sample.usage for sample in call.samples), Usage())
            self._budget.lose(self._model, call.taken - used)

    async def once(self, request: ChatRequest, body: dict[str, Any], call: Call) -> Reply:
        """One try.

        Raises:
            BudgetSpentError: it would not fit into the budget; nothing was sent.
            ModelError: nothing is sent any more.
            APIStatusError, APIConnectionError, TimeoutError, ForeignReplyError,
            MalformedReplyError: as of `Connection.post`.
        """
        self._check_not_ended()
        most = estimated(request)
        with self._budget.reserved(request):
            await self._requests.take(1)
            await self._tokens.take(most.total)
            began = self._limiter.now()
            try:
                with self._on_its_way():
                    reply = await self._connection.post(body)
            except (Exception, asyncio.CancelledError) as error:
                if worth_another_try(error) and not isinstance(error, MalformedReplyError):
                    self._limiter.refused(began)
                used = spent_without_answer(error, request)
                self._spend(used, most)
                self._budget.lose(self._model, used)
                if isinstance(error, Exception):
                    self._check_not_ended()
                raise
            self._limiter.answered(self._limiter.now() - began)
            used = used_for(reply, request)
            self._spend(used, most)
            call.taken = call.taken + used
        return reply

    def send_no_more(self) -> None:
        """Let what was sent be answered; all else fails at once, until this event loop ends."""
        self._ended = asyncio.get_running_loop()
        for task in self._waiting:
            task.cancel()

    def _spend(self, used: Usage, most: Usage) -> None:
        """What a try took, whether or not its reply is of any use."""
        self._budget.spent = self._budget.spent + used
        self._tokens.correct(most.total - used.total)

    @contextmanager
    def _on_its_way(self) -> Iterator[None]:
        task = _task()
        self._waiting.discard(task)
        try:
            yield
        finally:
            self._waiting.add(task)

    def _check_not_ended(self) -> None:
        if self._ended is asyncio.get_running_loop():
            raise ModelError(f"model {self._model} is not asked any more: the run has ended")


def _task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task
