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
from dataclasses import dataclass
from typing import Literal

from rldf_ray.models.base import Completion
from rldf_ray.protocols.multirole.debater import Participant
from rldf_ray.protocols.multirole.layouts import render
from rldf_ray.records import Context, LabelSource
from rldf_ray.referee.verdict import Referee, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One statement and the referee's verdict on it.

    Attributes:
        score: the score of the verdict that the debaters are shown and that labels the statement.
        score_source: which of the verdict's two scores that is.
    """

    identity: str
    text: str
    completion: Completion
    verdict: Verdict
    score: float | None
    score_source: LabelSource

    @property
    def rank(self) -> int | None:
        return self.verdict.rank


Round = tuple[Turn, ...]


@dataclass(frozen=True)
class MultiRoleDebate:
    """How a debate is held: its rounds, its order of speaking, the score the debaters are shown."""

    rounds: int
    order: Literal["simultaneous", "sequential"]
    shown_score: LabelSource

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
            texts = [whole_sentences(completion) for completion in spoken]
            verdicts = await referee.judge(context, texts, address, affinity=debate_id)
            source = self._source(verdicts)
            turns = tuple(
                Turn(
                    identity=debater.identity.name,
                    text=text,
                    completion=completion,
                    verdict=verdict,
                    score=verdict.expected_score if source == "expected" else verdict.score,
                    score_source=source,
                )
                for debater, text, completion, verdict in zip(
                    debaters, texts, spoken, verdicts, strict=True
                )
            )
            transcript.append(turns)
            on_round(len(turns))
            discussion += "\n\n" + render("round", number=number, turns=turns)
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
            discussion += f"\n\n{debater.identity.name}: {whole_sentences(completion)}"
            spoken.append(completion)
        return spoken

    def _source(self, verdicts: Sequence[Verdict]) -> LabelSource:
        """One for the whole round: a backend that reports no probabilities has said scores."""
        expected = any(verdict.expected_score is not None for verdict in verdicts)
        return self.shown_score if expected else "said"


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
