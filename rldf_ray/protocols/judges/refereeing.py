"""Judges as referees of RLDF: the same systems over a statement in its context, from 0 to 10.

    debate   J evaluates, C attacks and J evaluates anew for R rounds, then J scores
    meta     the pool evaluates and scores, then M names the best referee, or scores

Reasons come before the score, which is one of eleven numbers by guided decoding, with their
probabilities where the backend tells. Every statement is judged by itself; ranks are by score.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Literal

from rldf_ray.models.agent import Agent, Choice
from rldf_ray.models.base import ChatModel, Completion, Usage, seed_of
from rldf_ray.protocols.judges.judging import LETTERS
from rldf_ray.protocols.judges.prompt import Evaluation, render
from rldf_ray.records import Context
from rldf_ray.referee.prompted import render as referee_prompt
from rldf_ray.referee.verdict import (
    SCORES,
    Referee,
    Verdict,
    expected_score,
    known_score,
    ranks_of,
)
from rldf_ray.storage.digest import digest


@dataclass(frozen=True, kw_only=True)
class Opinion:
    """What one judge makes of one statement: reasons, and a verdict without a rank."""

    text: str
    verdict: Verdict


@dataclass(frozen=True, kw_only=True)
class StatementJudge:
    """A language model that evaluates a statement in words, then scores it.

    Attributes:
        max_tokens: longest evaluation.
    """

    model: ChatModel
    seed: int
    max_tokens: int

    @property
    def agent(self) -> Agent:
        return Agent(model=self.model, seed=self.seed, system=referee_prompt("system"))

    async def evaluate(
        self,
        seat: Literal["judge", "critic"],
        context: Context,
        text: str,
        history: Sequence[Evaluation],
        address: str,
        affinity: str,
    ) -> Completion:
        """Its evaluation in words.

        Raises:
            ModelError: the model could not answer.
        """
        prompt = render(f"statement_{seat}", context=context.text, text=text, history=history)
        return await self.agent.say(
            prompt, address, max_tokens=self.max_tokens, temperature=0.0, affinity=affinity
        )

    async def score(
        self,
        context: Context,
        text: str,
        history: Sequence[Evaluation],
        address: str,
        affinity: str,
        history_is: str = "This is your evaluation of it:",
    ) -> Choice:
        """Its score, once it has said or read something.

        Raises:
            ModelError: the model could not answer.
        """
        prompt = render(
            "statement_score",
            context=context.text,
            text=text,
            history=history,
            history_is=history_is,
        )
        return await self.agent.choose(
            prompt, SCORES, address, probabilities=True, affinity=affinity
        )

    async def opinion(self, context: Context, text: str, address: str, affinity: str) -> Opinion:
        """An evaluation and the score that follows from it."""
        said = await self.evaluate("judge", context, text, (), f"{address}/evaluation", affinity)
        own = [Evaluation("You", said.text)]
        choice = await self.score(context, text, own, f"{address}/score", affinity)
        return Opinion(text=said.text, verdict=_verdict(choice, said.usage))


@dataclass(frozen=True, kw_only=True)
class DebateReferee:
    """A judge and a critic; the judge's score after the last round counts."""

    judge_: StatementJudge
    critic: StatementJudge
    rounds: int
    kind: str = "debate"

    async def judge(
        self, context: Context, texts: Sequence[str], address: str, affinity: str = ""
    ) -> list[Verdict]:
        return _ranked(
            await asyncio.gather(
                *(
                    self._debated(context, text, f"{address}/debate/{i}", affinity)
                    for i, text in enumerate(texts)
                )
            )
        )

    async def _debated(self, context: Context, text: str, address: str, affinity: str) -> Verdict:
        transcript: list[Evaluation] = []
        usage = Usage()

        async def speaks(
            who: StatementJudge, seat: Literal["judge", "critic"], number: int
        ) -> None:
            nonlocal usage
            seen = transcript[-1:] if seat == "critic" else transcript
            place = f"{address}/{number}/{seat}"
            said = await who.evaluate(seat, context, text, seen, place, affinity)
            speaker = "Judge" if seat == "judge" else "Agent"
            transcript.append(Evaluation(f"Round {number}: {speaker}", said.text))
            usage += said.usage

        await speaks(self.judge_, "judge", 1)
        for number in range(1, self.rounds + 1):
            await speaks(self.critic, "critic", number)
            await speaks(self.judge_, "judge", number + 1)
        last = [Evaluation("You", transcript[-1].text)]
        choice = await self.judge_.score(context, text, last, f"{address}/score", affinity)
        return _if_all_spoke(_verdict(choice, usage), transcript)


@dataclass(frozen=True, kw_only=True)
class MetaReferee:
    """A judge above a pool, whose members are language models or other referees.

    Attributes:
        pool: by name; names are hidden from the judge, and the order is shuffled by what is judged,
            wherever in a round it stands.
    """

    judge_: StatementJudge
    pool: Mapping[str, StatementJudge | Referee]
    mode: Literal["select", "conclude"]
    kind: str = "meta"

    async def judge(
        self, context: Context, texts: Sequence[str], address: str, affinity: str = ""
    ) -> list[Verdict]:
        return _ranked(
            await asyncio.gather(
                *(
                    self._above_pool(context, text, f"{address}/meta/{i}", affinity)
                    for i, text in enumerate(texts)
                )
            )
        )

    async def _above_pool(
        self, context: Context, text: str, address: str, affinity: str
    ) -> Verdict:
        opinions = await asyncio.gather(
            *(
                _opinion_of(member, context, text, f"{address}/pool/{name}", affinity)
                for name, member in self.pool.items()
            )
        )
        shown = list(opinions)
        Random(seed_of(self.judge_.seed, digest([context.text, text]))).shuffle(shown)
        usage = sum((o.verdict.usage for o in opinions), Usage())
        history = [
            Evaluation(f"Referee {letter}", opinion.text)
            for letter, opinion in zip(LETTERS, shown, strict=False)
        ]
        if self.mode == "conclude":
            choice = await self.judge_.score(
                context,
                text,
                history,
                f"{address}/score",
                affinity,
                "These referees have evaluated it:",
            )
            return _if_all_spoke(_verdict(choice, usage), history)
        letters = LETTERS[: len(shown)]
        prompt = render(
            "statement_select", context=context.text, text=text, history=history, names=letters
        )
        chosen = await self.judge_.agent.choose(
            prompt, tuple(letters), f"{address}/select", affinity=affinity
        )
        usage += chosen.completion.usage
        if chosen.value is None:
            failure = chosen.failure("the meta-judge's choice")
            none = _verdict(chosen, usage)
            return replace(none, score=None, expected_score=None, failure=failure, usage=usage)
        verdict = replace(shown[letters.index(chosen.value)].verdict, rank=None, usage=usage)
        return _if_all_spoke(verdict, history)


async def _opinion_of(
    member: StatementJudge | Referee, context: Context, text: str, address: str, affinity: str
) -> Opinion:
    """A member's reasons and verdict; a referee that gives no reasons is shown by its score.

    The text of a judge that gave none stays empty: a score that follows from nothing counts for
    nothing.
    """
    if isinstance(member, StatementJudge):
        own = await member.opinion(context, text, address, affinity)
        score = known_score(own.verdict)
        if score is None or not own.text.strip():
            return Opinion(text=own.text, verdict=own.verdict)
        return Opinion(text=f"{own.text} My score: {score:.1f}", verdict=own.verdict)
    (verdict,) = await member.judge(context, [text], address, affinity)
    score = known_score(verdict)
    said = "No score." if score is None else f"My score: {score:.1f}"
    return Opinion(text=said, verdict=verdict)


def _if_all_spoke(verdict: Verdict, history: Sequence[Evaluation]) -> Verdict:
    """The verdict, or a failure where somebody's evaluation is empty: refused, or cut off."""
    silent = [evaluation.speaker for evaluation in history if not evaluation.text.strip()]
    if not silent:
        return verdict
    failure = f"no evaluation: {silent[0]} gave an empty text"
    return replace(verdict, score=None, expected_score=None, failure=failure)


def _ranked(verdicts: Sequence[Verdict]) -> list[Verdict]:
    ranks = ranks_of([known_score(verdict) for verdict in verdicts])
    return [replace(v, rank=rank) for v, rank in zip(verdicts, ranks, strict=True)]


def _verdict(choice: Choice, before: Usage) -> Verdict:
    """The verdict that a score is, with the usage of what was said before it."""
    completion = choice.completion
    numbers = choice.value in SCORES
    return Verdict(
        score=float(choice.value) if numbers and choice.value is not None else None,
        expected_score=expected_score(choice.probabilities)
        if choice.probabilities is not None and set(choice.probabilities) <= set(SCORES)
        else None,
        rank=None,
        failure=choice.failure("the referee's score"),
        model=completion.model,
        revision=completion.revision,
        usage=before + completion.usage,
    )
