"""Agents: a prompt plus a `ChatModel`. The debater speaks, the referee scores and ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rldf_ray.models.base import ChatModel, ChatRequest, Completion, seed_of
from rldf_ray.protocols.multirole.layouts import Layout, laid_out, render, system_prompt
from rldf_ray.records import Identity, TopicKind


class Participant(Protocol):
    """Anything that makes statements: a debater, or whoever answers without a debate."""

    @property
    def identity(self) -> Identity: ...

    async def speak(
        self, discussion: str, number: int, address: str, affinity: str
    ) -> Completion: ...


@dataclass(frozen=True, kw_only=True)
class Debater:
    """Argues from an identity's position (METHOD 1.3).

    Attributes:
        table: everybody who may sit in the debate, itself included; empty if it knows of nobody.
        examples: statements of other debates on opinions that it is shown.
        kind: of the topic: an opinion is argued for and against, a judgement is concluded.
        wording: which ways to say that something is not known it is told of.
    """

    identity: Identity
    model: ChatModel
    max_tokens: int
    temperature: float
    top_p: float
    seed: int
    layout: Layout = "shared"
    table: tuple[Identity, ...] = ()
    examples: int = 0
    kind: TopicKind = "opinion"
    wording: int = 0

    async def speak(self, discussion: str, number: int, address: str, affinity: str) -> Completion:
        """A statement for round `number`, after `discussion`: topic and transcript so far."""
        table = self.table or (self.identity,)
        system = system_prompt(table, self.examples, self.kind, self.wording)
        turn = render("turn", number=number, identity=self.identity, kind=self.kind)
        request = ChatRequest(
            messages=laid_out(self.layout, system, discussion, turn),
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            seed=seed_of(self.seed, address),
            affinity=affinity,
            address=address,
        )
        (completion,) = await self.model.complete(request)
        return completion
