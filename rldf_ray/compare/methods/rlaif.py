"""RLAIF: preferences of an AI judge on sampled answers, then the same reward model and PPO.

Where RLDF holds a debate, the model answers the prompt of training as often as there would be
statements, each answer for itself. The referee of the debates judges them round by round in the
same words, and they are labelled by the same rules and paired within their topic, as they have no
identity. So topics, number of answers, their greatest length and the judge's calls are RLDF's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from rldf_ray.compare.method import Method, Training
from rldf_ray.compare.plans import sampling
from rldf_ray.dataset.preference_data import prompt_of
from rldf_ray.models.base import ChatModel, ChatRequest, Completion, Message, seed_of
from rldf_ray.pipeline import STAGES
from rldf_ray.plan import Plan
from rldf_ray.records import Debate, Identity
from rldf_ray.stages.debates import debates

PLACE = 4
NOBODY = Identity("policy", "the", "")


def rows(plan: Plan, teachers: Sequence[str]) -> list[Method]:
    """One row."""
    made = dict(STAGES) | {"debates": partial(debates, seated=answerers_of)}
    return [Method("rlaif", "RLAIF", Training(sampling(plan), "ppo", made))]


@dataclass(frozen=True)
class Answerer:
    """Samples an answer to one prompt, whatever the others say."""

    messages: tuple[Message, ...]
    model: ChatModel
    plan: Plan
    identity: Identity = NOBODY

    async def speak(self, discussion: str, number: int, address: str, affinity: str) -> Completion:
        """An answer of its own; `discussion` and `number` are not told to the model."""
        section = self.plan.debate
        (completion,) = await self.model.complete(
            ChatRequest(
                messages=self.messages,
                max_tokens=section.max_tokens,
                temperature=section.temperature,
                top_p=section.top_p,
                seed=seed_of(self.plan.seed, address),
                affinity=affinity,
                address=address,
            )
        )
        return completion


def answerers_of(debate: Debate, plan: Plan, speaker: ChatModel) -> list[Answerer]:
    """As many as the debate would have debaters; all are the model itself."""
    prompt = prompt_of(debate.topic, debate.clue_shown)
    messages = tuple(Message("user", message["content"]) for message in prompt)
    return [Answerer(messages, speaker, plan) for _ in debate.identities]
