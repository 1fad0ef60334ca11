"""Who sits where in a study: a seat's prompt goes to the model in it, and what it says is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from rldf_ray.models.agent import Agent, Choice
from rldf_ray.models.base import ChatModel, Completion, Message, seed_of
from rldf_ray.protocols.study import StudyTurn, turn_of
from rldf_ray.storage.digest import digest

Prompt = str | Sequence[Message]
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Seats:
    """The models of a study at work on one item.

    Attributes:
        item: its id; all addresses begin with it.
        models: by their names in the plan.
        affinity: whose requests share a beginning and so an engine; the item's where it is empty.
        turns: everything that was said, as it came.
    """

    item: str
    models: Mapping[str, ChatModel]
    seed: int
    affinity: str = ""
    turns: list[StudyTurn] = field(default_factory=list)
    _asked: dict[str, asyncio.Task[Any]] = field(default_factory=dict)

    async def say(
        self,
        seat: str,
        name: str,
        prompt: Prompt,
        place: str,
        *,
        system: str,
        max_tokens: int,
        temperature: float,
        json_schema: dict[str, object] | None = None,
        documents: Sequence[str] = (),
        seed_place: str | None = None,
    ) -> StudyTurn:
        """What the model `name` says to a seat's prompt.

        Args:
            place: ends the address; what several ask at one address is asked once.
            seed_place: what the seed belongs to where requests of several addresses share one;
                by default the address.

        Raises:
            ModelError: it could not answer.
        """
        address = f"{self.item}/{place}"
        seed = seed_of(self.seed, f"{self.item}/{seed_place or place}")

        async def said() -> StudyTurn:
            completion = await self._agent(name, system).say(
                prompt,
                address,
                max_tokens=max_tokens,
                temperature=temperature,
                affinity=self.affinity or self.item,
                json_schema=json_schema,
                documents=documents,
                seed=seed,
            )
            return self._keep(completion, seat, name, address, system, prompt, seed)

        turn: StudyTurn = await self._once(address, said)
        return turn

    async def say_n(
        self,
        seat: str,
        name: str,
        prompt: Prompt,
        place: str,
        *,
        number: int,
        system: str,
        max_tokens: int,
        temperature: float,
    ) -> list[StudyTurn]:
        """`number` samples of what the model `name` says, in one request.

        Raises:
            ModelError: it could not answer.
        """
        address = f"{self.item}/{place}"

        async def said() -> list[StudyTurn]:
            completions = await self._agent(name, system).say_n(
                number,
                prompt,
                address,
                max_tokens=max_tokens,
                temperature=temperature,
                affinity=self.affinity or self.item,
            )
            return [self._keep(one, seat, name, address, system, prompt) for one in completions]

        turns: list[StudyTurn] = await self._once(address, said)
        return turns

    async def choose(
        self, seat: str, name: str, prompt: Prompt, choices: Sequence[str], place: str, system: str
    ) -> Choice:
        """Which of `choices` the model `name` takes, with their probabilities where it reports any.

        Raises:
            ModelError: it could not answer.
        """
        address = f"{self.item}/{place}"

        async def chosen() -> Choice:
            choice = await self._agent(name, system).choose(
                prompt, choices, address, probabilities=True, affinity=self.affinity or self.item
            )
            self._keep(choice.completion, seat, name, address, system, prompt)
            return choice

        choice: Choice = await self._once(address, chosen)
        return choice

    async def sample(
        self,
        seat: str,
        name: str,
        prompt: Prompt,
        choices: Sequence[str],
        place: str,
        *,
        number: int,
        temperature: float,
        system: str,
    ) -> list[str | None]:
        """`number` sampled choices; None where a reply is none of `choices`.

        Raises:
            ModelError: the model could not answer.
        """
        address = f"{self.item}/{place}"

        async def sampled() -> tuple[Choice, ...]:
            several = await self._agent(name, system).sample(
                number,
                prompt,
                choices,
                address,
                temperature=temperature,
                affinity=self.affinity or self.item,
            )
            for one in several:
                self._keep(one.completion, seat, name, address, system, prompt)
            return several

        return [one.value for one in await self._once(address, sampled)]

    async def _once(self, address: str, ask: Callable[[], Coroutine[None, None, Any]]) -> Any:
        if address not in self._asked:
            self._asked[address] = asyncio.ensure_future(ask())
        return await self._asked[address]

    def _agent(self, name: str, system: str) -> Agent:
        return Agent(model=self.models[name], seed=self.seed, system=system)

    def _keep(
        self,
        completion: Completion,
        seat: str,
        name: str,
        address: str,
        system: str,
        prompt: Prompt,
        seed: int | None = None,
    ) -> StudyTurn:
        said = [prompt] if isinstance(prompt, str) else [message.content for message in prompt]
        turn = turn_of(
            completion,
            item_id=self.item,
            address=address,
            seat=seat,
            speaker=name,
            seed=seed_of(self.seed, address) if seed is None else seed,
            prompt_digest=digest(system, *said),
        )
        self.turns.append(turn)
        return turn


async def all_of(*several: Awaitable[T]) -> list[T]:
    """The results of all, each waited for to its end; then the first failure, if there is one.

    So what a failure leaves behind does not depend on what was quicker.
    """
    results = await asyncio.gather(*several, return_exceptions=True)
    for one in results:
        if isinstance(one, BaseException):
            raise one
    return [one for one in results if not isinstance(one, BaseException)]
