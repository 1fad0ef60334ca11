"""RLAIF: preferences of an AI judge on sampled answers, then the same reward model and PPO.

Where RLDF holds a debate, the model answers the prompt of training as often as there would be
statements, each answer for itself. The referee of the debates judges them round by round in the
same words, and they are labelled by the same rules and paired within their topic, as they have no
identity. So topics, number of answers, their greatest length and the judge's calls are RLDF's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from rldf_ray.comparison.method import Method, Training
from rldf_ray.comparison.plans import sampling
from rldf_ray.dataset.preference_data import prompt_of
from rldf_ray.models.agent import Agent
from rldf_ray.models.base import ChatModel, Completion, Message
from rldf_ray.plan import Part, Plan
from rldf_ray.protocols import multirole
from rldf_ray.protocols.multirole.answering import Answering, Sampling, answering_of, stated
from rldf_ray.protocols.multirole.debate import Seating
from rldf_ray.protocols.seam import Cast
from rldf_ray.records import Debate, Identity, Statement, Topic
from rldf_ray.stages.debates import debates
from rldf_ray.stages.table import STAGES

PLACE = 7
NOBODY = Identity("policy", "the", "")


def rows(plan: Plan, teachers: Sequence[str]) -> list[Method]:
    """One row."""
    made = dict(STAGES) | {"debates": partial(debates, protocol=SampledAnswers(answerers_of))}
    return [Method("rlaif", "RLAIF", Training(sampling(plan), "ppo", made))]


@dataclass(frozen=True)
class SampledAnswers:
    """The multi-role debate's items, rounds and referee, with answers instead of debaters."""

    seated: Seating

    ROLES: ClassVar[Mapping[str, Part]] = multirole.ROLES

    def items(self, topics: Sequence[Topic], plan: Plan) -> list[Debate]:
        """The same instances as the debates'."""
        return multirole.items(topics, plan)

    def statements_per_item(self, plan: Plan) -> int:
        """As many answers as the debates have statements."""
        return multirole.statements_per_item(plan)

    async def hold(self, item: Debate, cast: Cast) -> list[Statement]:
        """Sample the answers of one item and have them refereed, round by round."""
        return await multirole.hold(item, cast, seated=self.seated)


@dataclass(frozen=True)
class Answerer:
    """Samples an answer to one prompt, whatever the others say."""

    messages: tuple[Message, ...]
    model: ChatModel
    plan: Plan
    answering: Answering | None = None
    identity: Identity = NOBODY

    async def speak(self, discussion: str, number: int, address: str, affinity: str) -> Completion:
        """An answer of its own; the model sees neither `discussion` nor `number`."""
        section = self.plan.debate
        agent = Agent(model=self.model, seed=self.plan.seed)
        sampling = Sampling(
            max_tokens=section.max_tokens, temperature=section.temperature, top_p=section.top_p
        )
        return await stated(agent, self.messages, address, sampling, self.answering, affinity)


def answerers_of(debate: Debate, plan: Plan, models: Sequence[ChatModel]) -> list[Answerer]:
    """As many as the debate would have debaters; all are the model itself."""
    prompt = prompt_of(debate.topic, debate.clue_shown)
    messages = tuple(Message("user", message["content"]) for message in prompt)
    return [Answerer(messages, model, plan, answering_of(debate, plan)) for model in models]
