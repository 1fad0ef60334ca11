"""Who speaks in a debate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rldf_ray.models.agent import Agent
from rldf_ray.models.base import ChatModel, Completion, Message
from rldf_ray.plan import Plan
from rldf_ray.protocols.multirole.answering import (
    Answering,
    Sampling,
    answering_of,
    stated,
    wordings_of,
)
from rldf_ray.protocols.multirole.layouts import Layout, render, system_prompt, turn_prompt
from rldf_ray.records import Debate, Identity, TopicKind
from rldf_ray.topics.bias_type import bias_type


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
        table: everybody who may sit in the debate, itself included; empty if it knows nobody.
        examples: statements of other debates on opinions that it is shown.
        kind: of the topic: an opinion is argued for and against, a judgement is concluded.
        unknown: the ways to say that something is not known that its prompt names.
        answering: what it chooses from; None where its statements are written.
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
    unknown: tuple[str, ...] = ()
    answering: Answering | None = None

    @property
    def system(self) -> str:
        """Its instruction, the same for everybody at the table."""
        table = self.table or (self.identity,)
        return system_prompt(table, self.examples, self.kind, self.unknown)

    async def speak(self, discussion: str, number: int, address: str, affinity: str) -> Completion:
        """A statement for round `number`, after `discussion`: topic and transcript so far."""
        turn = render("turn", number=number, identity=self.identity, kind=self.kind)
        agent = Agent(model=self.model, seed=self.seed, system=self.system)
        prompt = (Message("user", turn_prompt(self.layout, discussion, turn)),)
        sampling = Sampling(
            max_tokens=self.max_tokens, temperature=self.temperature, top_p=self.top_p
        )
        return await stated(agent, prompt, address, sampling, self.answering, affinity)


def debaters_of(debate: Debate, plan: Plan, models: Sequence[ChatModel]) -> list[Debater]:
    """The debaters of one instance in their seating order, each played by its seat's model."""
    section = plan.debate
    return [
        Debater(
            identity=identity,
            model=model,
            max_tokens=section.max_tokens,
            temperature=section.temperature,
            top_p=section.top_p,
            seed=plan.seed,
            layout=section.layout,
            table=bias_type(debate.topic.bias_type).identities,
            examples=section.examples,
            kind=debate.topic.kind,
            unknown=wordings_of(debate, plan),
            answering=answering_of(debate, plan),
        )
        for identity, model in zip(debate.identities, models, strict=True)
    ]
