"""The multi-role debate (METHOD 1; paper section 3.1).

    topic -> round 1: every debater speaks -> the referee scores and ranks
          -> round 2: every debater has read round 1 and its scores, speaks again -> ...

A debate is a coroutine that knows nothing of other debates, so thousands run at once and the
engines batch their requests; no debate waits for another one's round.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rldf_ray.models.base import ChatModel, Completion
from rldf_ray.plan import Plan
from rldf_ray.protocols.multirole.debater import Participant, debaters_of
from rldf_ray.protocols.multirole.layouts import render
from rldf_ray.protocols.seam import Cast
from rldf_ray.protocols.turns import Round, Spoken, refereed, statements_of
from rldf_ray.records import Context, Debate, LabelSource, Statement, context_of
from rldf_ray.referee.verdict import Referee

Seating = Callable[[Debate, Plan, Sequence[ChatModel]], Sequence[Participant]]
"""Who takes part in a debate of a plan, given a model for each seat."""


async def hold(debate: Debate, cast: Cast, seated: Seating = debaters_of) -> list[Statement]:
    """Hold one debate as the plan says; returns its statements by round and seat.

    Args:
        seated: who takes part, where it is not the debaters of the paper.
    """
    section = cast.plan.debate
    context = context_of(debate.topic, debate.clue_shown)
    models = cast.seats or [cast.models["debater"]] * len(debate.identities)
    transcript = await MultiRoleDebate(
        section.rounds, section.order, cast.plan.referee.label_source, section.show_marks
    ).hold(
        context,
        seated(debate, cast.plan, models),
        cast.referee,
        debate.debate_id,
        cast.on_statements,
    )
    return statements_of(transcript, debate, context, cast)


@dataclass(frozen=True)
class MultiRoleDebate:
    """How a debate is held: its rounds, its order of speaking, what is shown of the verdicts.

    Attributes:
        shown_score: which score labels a statement, and is its mark.
        show_marks: whether the debaters read marks and places.
    """

    rounds: int
    order: Literal["simultaneous", "sequential"]
    shown_score: LabelSource
    show_marks: bool = True

    async def hold(
        self,
        context: Context,
        debaters: Sequence[Participant],
        referee: Referee,
        debate_id: str,
        on_round: Callable[[int], None] = lambda statements: None,
    ) -> list[Round]:
        """Debate `context` to the end; returns the rounds in order, turns in seating order.

        Args:
            on_round: called with the number of statements of every round that has been judged.
        """
        discussion = render("opening", topic=context.account, question=context.question)
        transcript: list[Round] = []
        for number in range(1, self.rounds + 1):
            address = f"{debate_id}/round/{number}"
            spoken = await self._round(discussion, number, debaters, address, debate_id)
            turns = await refereed(
                [
                    Spoken(
                        identity=debater.identity.name,
                        text=whole_sentences(completion),
                        completion=completion,
                    )
                    for debater, completion in zip(debaters, spoken, strict=True)
                ],
                referee,
                context,
                address,
                affinity=debate_id,
                score_source=self.shown_score,
            )
            transcript.append(turns)
            on_round(len(turns))
            heard = [turn if self.show_marks else replace(turn, score=None) for turn in turns]
            heard = [turn for turn in heard if turn.text]
            if heard:
                discussion += "\n\n" + render("round", number=number, turns=heard)
        return transcript

    async def _round(
        self,
        discussion: str,
        number: int,
        debaters: Sequence[Participant],
        address: str,
        affinity: str,
    ) -> list[Completion]:
        if self.order == "simultaneous":
            return await asyncio.gather(
                *(
                    debater.speak(discussion, number, f"{address}/role/{seat}", affinity)
                    for seat, debater in enumerate(debaters)
                )
            )
        spoken: list[Completion] = []
        for seat, debater in enumerate(debaters):
            completion = await debater.speak(discussion, number, f"{address}/role/{seat}", affinity)
            spoken.append(completion)
            if text := whole_sentences(completion):
                discussion += f"\n\n{debater.identity.name}: {text}"
        return spoken


def whole_sentences(completion: Completion) -> str:
    """The statement as the others read it: an answer cut by length ends with its last sentence.

    An answer without a single whole sentence stays as it is. Small models go on in the form of the
    transcript that they read, with a mark and the next speaker; that is not part of the statement.
    """
    text, mark, _ = " ".join(completion.text.split()).partition("[mark ")
    if mark:
        return text.strip()
    if completion.finish_reason == "stop":
        return text
    last_end = list(re.finditer(r"[.!?][\"')\]]*(?=\s|$)", text))
    return text[: last_end[-1].end()] if last_end else text
