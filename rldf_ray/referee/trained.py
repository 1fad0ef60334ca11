"""The trained referee: a reward model fitted to labelled statements, its scalar a score of 0 to 10.

Each statement is scored alone in its context, so that a score does not depend on the others of its
round or on their order; ranks follow from the scores.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass

from rldf_ray.models.base import ChatModel, ChatRequest, Completion, Message
from rldf_ray.prompts import prompts_beside
from rldf_ray.records import Context
from rldf_ray.referee.platt import Calibration
from rldf_ray.referee.verdict import Verdict, ranks_of

render = prompts_beside(__file__)


def referee_prompt(context: str) -> tuple[Message, ...]:
    """What a statement answers, as the reward model reads it: in training and in scoring.

    The system message is shorter than the one that chat templates put in its place.
    """
    return (
        Message("system", render("trained_system")),
        Message("user", render("trained", context=context)),
    )


@dataclass(frozen=True)
class TrainedReferee:
    """`model` answers with the reward of the last message (`models/reward_actor.py`)."""

    model: ChatModel
    calibration: Calibration
    kind: str = "trained"

    async def judge(
        self, context: Context, texts: Sequence[str], address: str, affinity: str = ""
    ) -> list[Verdict]:
        """As it has learned, by the context's text alone; its `conclusion` is not read."""
        answers = await asyncio.gather(
            *(
                self._reward(context, text, f"{address}/score/{i}", affinity)
                for i, text in enumerate(texts)
            )
        )
        scores = [self._score(answer) for answer in answers]
        return [
            Verdict(
                score=None if score is None else float(round(score)),
                expected_score=score,
                rank=rank,
                failure=None if score is not None else _failure(text, answer),
                model=answer.model,
                revision=answer.revision,
                usage=answer.usage,
            )
            for text, answer, score, rank in zip(
                texts, answers, scores, ranks_of(scores), strict=True
            )
        ]

    async def _reward(self, context: Context, text: str, address: str, affinity: str) -> Completion:
        request = ChatRequest(
            messages=(*referee_prompt(context.text), Message("assistant", text)),
            max_tokens=1,
            temperature=0.0,
            affinity=affinity,
            address=address,
        )
        (answer,) = await self.model.complete(request)
        return answer

    def _score(self, answer: Completion) -> float | None:
        reward = number_in(answer.text)
        return None if reward is None else self.calibration.score(reward)


def number_in(text: str) -> float | None:
    """The number that `text` is; None if it is none, or not a finite one."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _failure(text: str, answer: Completion) -> str:
    if not text:
        return "there is nothing to score"
    if not answer.text:
        return "the trained referee could not read the statement: its context is too long"
    return f"the trained referee's reward is no number: {answer.text!r}"
