"""A model whose finished calls survive a kill: asked again, it answers from the journal."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import fields
from typing import Any, Protocol, TypeVar, runtime_checkable

import msgspec

from rldf_ray.models.base import BudgetSpentError, ChatModel, ChatRequest, Completion, Usage
from rldf_ray.storage.digest import digest
from rldf_ray.storage.journal import Journal

log = logging.getLogger(__name__)
T = TypeVar("T")

RARE = ("refusal", "thinking")
FIELDS = frozenset(field.name for field in fields(Completion))
# A wait of less is no news.
MOMENT_S = 2.0


class EarlierCalls(Protocol):
    """What other runs have asked already."""

    def samples(self, request: str) -> list[dict[str, Any]] | None:
        """The answer to the request with this digest, as a journal holds it; None if there is none.

        The digest covers model, messages, seed and settings, so the answer is this run's as well.
        """
        ...


@runtime_checkable
class Charging(Protocol):
    """A model that charges for what it was sent, whether or not the answer is waited for."""

    def send_no_more(self) -> None:
        """Let what was sent be answered; all else fails at once, until this event loop ends."""
        ...


class JournaledModel:
    """`model`, remembering every call in `journal` under the request's address.

    A call is repeated only if the request under its address has changed. `usage` sums the tokens
    of all answers given, remembered ones included: it is what the results cost, over all starts.

    Args:
        earlier: asked before the model is; what it knows is not written to the journal.
        address: where the model is, if its name alone does not say which it is.
        once_by_name: earlier versions wrote its calls down by its name alone; those are its, too.
        request_fields: what all requests have besides; other ones make other requests of them.
    """

    def __init__(
        self,
        model: ChatModel,
        journal: Journal,
        earlier: EarlierCalls | None = None,
        address: str | None = None,
        once_by_name: bool = False,
        request_fields: Mapping[str, Any] | None = None,
    ) -> None:
        self._model = model
        self._known_as = model.name if address is None else f"{model.name} at {address}"
        self._once_by_name = once_by_name
        self._more = (dict(request_fields),) if request_fields else ()
        self._journal = journal
        self._earlier = earlier
        self.reused = 0
        self.made = 0
        self.skipped = 0
        self.usage = Usage()
        self._under_way: set[asyncio.Future[tuple[Completion, ...]]] = set()

    @property
    def name(self) -> str:
        return self._model.name

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        asked = msgspec.to_builtins(request)
        if not request.documents:
            # Earlier versions had no such field, and their calls are still these.
            del asked["documents"]
        request_digest = digest(self._known_as, asked, *self._more)
        earlier_digest = digest(self.name, asked, *self._more) if self._once_by_name else ""
        remembered = self._remembered(request.address, request_digest, earlier_digest)
        if remembered is not None:
            self.reused += 1
            return self._counted(remembered)
        call = asyncio.ensure_future(self._make(request, request_digest))
        self._under_way.add(call)
        call.add_done_callback(self._under_way.discard)
        call.add_done_callback(_retrieve)
        # A caller that is cancelled lets go of the call, which goes on until `settle` or the end
        # of the event loop: it is paid for either way.
        return await asyncio.shield(call)

    def _remembered(
        self, address: str, request: str, earlier_request: str
    ) -> tuple[Completion, ...] | None:
        entry = self._journal.get(address)
        if entry is not None and "request" not in entry:
            self._skip(address)
        elif entry is not None and entry["request"] in (request, earlier_request):
            samples = completions(entry.get("samples"))
            if samples is not None:
                return samples
            self._skip(address)
        if self._earlier is None:
            return None
        known = self._earlier.samples(request)
        if known is None and earlier_request:
            known = self._earlier.samples(earlier_request)
        return completions(known)

    def _skip(self, address: str) -> None:
        self.skipped += 1
        log.warning(
            "the journal's line of %s has other fields than this version's (%d such lines by now): "
            "its call is made again",
            *(address, self.skipped),
        )

    @property
    def charges(self) -> bool:
        """Whether an answer that nobody waits for is paid for."""
        return isinstance(self._model, Charging)

    async def settle(self) -> None:
        """Wait for the calls under way, so that what they cost is not lost.

        Of a model that charges, those that are sent already: for no longer than one answer takes.
        """
        if isinstance(self._model, Charging):
            self._model.send_no_more()
        if self._under_way:
            _, late = await asyncio.wait(self._under_way, timeout=MOMENT_S)
            if late:
                log.warning(
                    "waiting for %d calls to %s that are under way, so that their answers are kept "
                    "(Ctrl-C does not wait)",
                    *(len(late), self.name),
                )
        while self._under_way:
            await asyncio.wait(self._under_way)

    async def _make(self, request: ChatRequest, request_digest: str) -> tuple[Completion, ...]:
        samples = await self._model.complete(request)
        self._journal.append(
            request.address,
            {"request": request_digest, "samples": [_saved(sample) for sample in samples]},
        )
        self.made += 1
        return self._counted(samples)

    def _counted(self, samples: tuple[Completion, ...]) -> tuple[Completion, ...]:
        self.usage = sum((sample.usage for sample in samples), self.usage)
        return samples


async def settled(work: Awaitable[T], models: Iterable[JournaledModel]) -> T:
    """`work`; where an error ends it, calls of its models that are paid for are waited for.

    Where it is the budget that ends it, those of all its models are. Ctrl-C waits for none.

    Raises:
        UserError: that of `work`, once what is already paid for is kept.
    """
    try:
        return await work
    except Exception as error:
        is_budget = isinstance(error, BudgetSpentError)
        kept = [model.settle() for model in models if is_budget or model.charges]
        await asyncio.gather(*kept)
        raise


def _retrieve(call: asyncio.Future[Any]) -> None:
    """A failure that nobody waits for any more is no news: its cause has been reported."""
    if not call.cancelled():
        call.exception()


def _saved(sample: Completion) -> dict[str, Any]:
    """What few samples have is written for those alone, as earlier versions knew nothing of it."""
    saved: dict[str, Any] = msgspec.to_builtins(sample) | {"usage": sample.usage.numbers()}
    return {name: value for name, value in saved.items() if value or name not in RARE}


def completions(saved: object) -> tuple[Completion, ...] | None:
    """The samples of a line; None where they are not as this version writes them."""
    if not isinstance(saved, list) or not saved:
        return None
    if not all(isinstance(sample, dict) and sample.keys() <= FIELDS for sample in saved):
        return None
    try:
        return msgspec.convert(saved, tuple[Completion, ...])
    except msgspec.ValidationError:
        return None
