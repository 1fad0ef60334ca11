"""What keeps calls to an endpoint within bounds: a rate and a budget."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from rldf_ray.models.base import BudgetSpentError, ChatRequest, Usage
from rldf_ray.models.bucket import Bucket
from rldf_ray.models.journaled import completions
from rldf_ray.models.lost import LOST, Lost
from rldf_ray.plan import Endpoint
from rldf_ray.plan.speaking import SpeakingPlan
from rldf_ray.storage.journal import Journal, entries_in

# English text has about four characters a token; fewer err on the side of the limit.
CHARACTERS_A_TOKEN = 3.0


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
        spent: by finished calls, and by tries that brought no answer.
        unanswered: the part of it that went to those.
        lost: keeps that part for later starts.
        where: the folder of the runs that have it together; None where it is one run's.
    """

    tokens: int | None = None
    usd: float | None = None
    prompt_price: float = 0.0
    generated_price: float = 0.0
    spent: Usage = field(default_factory=Usage)
    unanswered: Usage = field(default_factory=Usage)
    lost: Lost = field(default_factory=Lost)
    where: Path | None = None
    _reserved: Usage = field(default_factory=Usage)

    @classmethod
    def of(cls, endpoint: Endpoint, models: Collection[str], journal: Journal) -> Budget:
        """The endpoint's budget, less what the journal says has been spent on its `models`.

        What brought no answer is in a file beside the journal. Other runs' files count as well
        where they have it together.
        """
        together = _together.get()
        budget = cls(
            tokens=endpoint.budget_tokens,
            usd=endpoint.budget_usd,
            prompt_price=endpoint.prompt_price or 0.0,
            generated_price=endpoint.generated_price or 0.0,
            lost=Lost(journal.path.with_name(LOST)),
            where=None if together is None else together.folder,
        )
        if (budget.tokens, budget.usd) != (None, None):
            others = () if together is None else together.journals_beside(journal)
            paid = {*models, *(() if together is None else together.models)}
            for entry in chain(journal.entries(), *map(entries_in, others)):
                for sample in completions(entry.get("samples")) or ():
                    if sample.model in paid:
                        budget.spent = budget.spent + sample.usage
            theirs = (Lost(path.with_name(LOST)) for path in others)
            budget.unanswered = sum((lost.of(paid) for lost in (budget.lost, *theirs)), Usage())
            budget.spent = budget.spent + budget.unanswered
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

    def lose(self, model: str, used: Usage) -> None:
        """The part of `spent` that `model` took for no answer grows by `used`."""
        self.unanswered = self.unanswered + used
        self.lost.add(model, used)

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
        if self.unanswered.total:
            by += (
                f", {self.unanswered.total} of them on tries that brought no answer (a timeout "
                "counts as the longest one: endpoint.timeout_s)"
            )
        return (
            f"the budget of {limit} ({name}) does not cover the next call: {spent} tokens{money} "
            f"are spent{by}; what was finished is kept, and the same command with a higher {name} "
            "continues"
        )
