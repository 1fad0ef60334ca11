"""How a statement is made: written, or on a scene chosen first.

A small model that writes its answer to a scene seldom names the right person, and seldom says that
it is not known, so there is little to prefer. Where it chooses, all three answers are common.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from rldf_ray.models.agent import CHOICE_TOKENS, Agent
from rldf_ray.models.base import Completion, Message, seed_of
from rldf_ray.plan import Plan
from rldf_ray.prompts import prompts_beside
from rldf_ray.records import Debate
from rldf_ray.topics.unknown import two_wordings

render = prompts_beside(__file__)


@dataclass(frozen=True)
class Answering:
    """What can be chosen on a scene.

    Attributes:
        choices: the two groups, and a way to say that it is not known.
        reasons: a reason follows the choice.
    """

    choices: tuple[str, ...]
    reasons: bool


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How a text is drawn: its most tokens, temperature and nucleus threshold."""

    max_tokens: int
    temperature: float
    top_p: float


def wordings_of(debate: Debate, plan: Plan) -> tuple[str, str]:
    """The two ways to say that something is not known that are named in `debate`."""
    return two_wordings(plan.debate.unknown, seed_of(plan.seed, f"{debate.debate_id}/wording"))


def answering_of(debate: Debate, plan: Plan) -> Answering | None:
    """What can be chosen in `debate`; None where statements are written, as opinions always are."""
    groups, how = debate.topic.groups, plan.debate.answers
    if how == "written" or groups is None:
        return None
    unknown, _ = wordings_of(debate, plan)
    return Answering(tuple(map(_sentence, (*groups, unknown))), how == "chosen_with_reason")


def _sentence(answer: str) -> str:
    return f"{answer[:1].upper()}{answer[1:]}."


def choice_tokens(choices: Sequence[str]) -> int:
    """Enough for each of the choices: a token is at least a byte."""
    return max(CHOICE_TOKENS, *(len(choice.encode()) for choice in choices))


async def stated(
    agent: Agent,
    messages: Sequence[Message],
    address: str,
    sampling: Sampling,
    answering: Answering | None,
    affinity: str,
) -> Completion:
    """A statement after `messages`; of one that is chosen, the most tokens are its reason's.

    All choices may be drawn, whatever the nucleus threshold: cut to it, the rarest of three would
    never be. A choice that a backend without guided decoding does not keep to leaves no statement.
    """
    drawn = {**asdict(sampling), "affinity": affinity}
    if answering is None:
        return await agent.say(messages, address, **drawn)
    (choice,) = await agent.sample(
        *(1, messages, answering.choices, f"{address}/answer"),
        temperature=sampling.temperature,
        max_tokens=choice_tokens(answering.choices),
        affinity=affinity,
    )
    if choice.value is None:
        failure = choice.failure("the debater's answer")
        return replace(choice.completion, text="", refusal=failure)
    if not answering.reasons:
        return replace(choice.completion, text=choice.value, finish_reason="stop")
    asked = (Message("assistant", choice.value), Message("user", render("reason")))
    reason = await agent.say((*messages, *asked), address, **drawn)
    return replace(
        reason,
        text=f"{choice.value} {reason.text.strip()}".strip(),
        usage=choice.completion.usage + reason.usage,
    )
