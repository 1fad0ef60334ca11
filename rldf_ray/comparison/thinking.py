"""Methods that let the model say something before it answers.

scene --> what it says, by the engines --> the question again --> its answer
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rldf_ray.evaluate.bbq.prompt import LETTERS, ItemPrompt
from rldf_ray.models.agent import Agent
from rldf_ray.models.base import ChatModel, Message
from rldf_ray.plan import Plan
from rldf_ray.prompts import prompts_beside
from rldf_ray.protocols.multirole.debate import whole_sentences
from rldf_ray.sets.bbq.items import BBQItem

render = prompts_beside(__file__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A question as a method that reasons first sees it.

    Attributes:
        group: the category or bias type it is about.
        name: unique within its group.
        family: scenes of one family begin with the same words.
        context: the scene; empty where there is a question alone.
        options: letters and answers in the order shown; empty where none are shown.
        is_opinion: whether the question asks for a view, and has no answer.
    """

    group: str
    name: str
    family: str
    context: str
    question: str
    options: tuple[tuple[str, str], ...] = ()
    is_opinion: bool = False

    @classmethod
    def of_item(cls, item: BBQItem, prompt: ItemPrompt) -> Scene:
        """An item; its options are shown only where it is answered by letter."""
        shown = [item.options[published] for published in prompt.order]
        options = tuple(zip(LETTERS, shown, strict=True)) if prompt.answers == LETTERS else ()
        name = str(item.example_id)
        return cls(
            group=item.category,
            name=name,
            family=item.question_index,
            context=item.context,
            question=item.question,
            options=options,
        )


@dataclass(frozen=True)
class Thinker:
    """The model as it is, saying things about scenes.

    It says them at the temperature of debate statements, at most `evaluate.thought_tokens` long.

    Attributes:
        scope: method (or the one it begins as) and repeat, the beginning of every address.
        seed: of the repeat.
    """

    model: ChatModel
    plan: Plan
    scope: str
    seed: int

    async def say(
        self, messages: Sequence[Message], scene: Scene, part: str, max_tokens: int | None = None
    ) -> str:
        """One sampled answer, without a torn last sentence.

        Args:
            max_tokens: where it is to be shorter than `evaluate.thought_tokens`.
        """
        address = f"{self.scope}/{scene.group}/{scene.name}/{part}"
        section = self.plan.debate
        completion = await Agent(model=self.model, seed=self.seed).say(
            messages,
            address,
            max_tokens=max_tokens or self.plan.evaluate.thought_tokens,
            temperature=section.temperature,
            top_p=section.top_p,
            affinity=f"{scene.group}/{scene.family}",
        )
        return whole_sentences(completion)


@dataclass(frozen=True, slots=True)
class Thought:
    """A model's reasoning, and the conversation in which it answers after it.

    Attributes:
        counts: what happened on the way, to be added up over the scenes.
    """

    text: str
    messages: tuple[Message, ...]
    counts: Mapping[str, int] = field(default_factory=dict)


Think = Callable[[Thinker, Scene], Awaitable[Thought]]
Depends = Callable[[Plan, int, Sequence[Scene]], tuple[object, ...]]
"""Of the plan, the seed of the repeat and the scenes: what shapes thoughts, for the hash of answers
that follow them. Values are of JSON."""


def sampling_of(plan: Plan, max_tokens: int) -> tuple[object, ...]:
    """What of the plan every method's thoughts are kept under."""
    section = plan.debate
    return (max_tokens, section.temperature, section.top_p, section.debaters, section.unknown)


def as_said(plan: Plan, seed: int, scenes: Sequence[Scene]) -> tuple[object, ...]:
    """What thoughts depend on that `Thinker.say` alone says."""
    return sampling_of(plan, plan.evaluate.thought_tokens)


def prompt_after(prompt: ItemPrompt, thought: Thought) -> ItemPrompt:
    """The prompt for the same answers in the same order, after the reasoning."""
    messages = tuple({"role": m.role, "content": m.content} for m in thought.messages)
    return ItemPrompt(messages, prompt.answers, prompt.order)
