"""The three systems: a judge alone, a judge and a critic in debate, a judge above a pool.

    single   J                                  the paper, sections 3.1 to 3.3 and 4.2
    debate   J, then C and J for R rounds       a verdict at every turn of the judge
    meta     the pool's openings, then M        M names the best referee, or scores anew

A judge's opening about a view is asked for once, whichever systems share it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Literal, TypeVar

from rldf_ray.models.base import seed_of
from rldf_ray.protocols.judges.prompt import Evaluation, Seat, render, segments
from rldf_ray.protocols.judges.settings import JudgesSettings
from rldf_ray.protocols.judges.verdict import (
    Scores,
    as_lines,
    parse_referee,
    parse_scores,
    referee_schema,
    score_schema,
)
from rldf_ray.protocols.judges.views import View
from rldf_ray.protocols.seats import Seats
from rldf_ray.protocols.study import StudyTurn

Mode = Literal["select", "conclude"]
LETTERS = "ABCDEFGHI"
CHARACTERS_A_TOKEN = 3
"""Few, so that an evaluation of as many characters as are allowed ends within its tokens."""
VERDICT_TOKENS = 40
"""Left for what follows an evaluation in JSON."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A text that should hold a verdict, and the one it holds.

    Attributes:
        turn: the last attempt.
        scores: by label; None where the verdict is invalid.
        chosen: the pool's member that a meta-judge named, in mode `select`.
    """

    turn: StudyTurn
    scores: Scores | None
    chosen: str | None = None

    @property
    def text(self) -> str:
        """As others are shown it."""
        return as_lines(self.turn.text)


@dataclass(frozen=True)
class Judging:
    """One item under one condition. Each method is a system of the paper.

    Attributes:
        key: names the condition in the addresses of all requests.
    """

    seats: Seats
    settings: JudgesSettings
    key: str
    view: View
    _openings: dict[tuple[Seat, str], asyncio.Task[Judgement]] = field(default_factory=dict)

    async def single(self, judge: str, seat: Seat = "judge") -> Judgement:
        """The judge's own opening: round 0 of all systems it takes part in."""
        if (seat, judge) not in self._openings:
            opening = self._scores(seat, judge, (), f"{self.key}/{judge}/{seat}")
            self._openings[seat, judge] = asyncio.ensure_future(opening)
        return await self._openings[seat, judge]

    async def debate(self, judge: str, critic: str) -> list[Judgement]:
        """The judge's verdict after every round; the last is final, and nobody votes."""
        rounds = [await self.single(judge)]
        transcript = [Evaluation("Round 1: Judge", rounds[0].text)]
        for number in range(1, self.settings.rounds + 1):
            place = f"{self.key}/{judge} v {critic}/{number}"
            seen = transcript[-1:] if self.settings.critic_view == "last_judge" else transcript
            attack = await self._say("critic", critic, seen, f"{place}/critic")
            transcript.append(Evaluation(f"Round {number}: Agent", attack.text))
            rounds.append(await self._scores("judge", judge, transcript, f"{place}/judge"))
            text = rounds[-1].text
            transcript.append(Evaluation(f"Round {number + 1}: Judge", text))
        return rounds

    async def meta(self, judge: str, pool: Sequence[str], mode: Mode) -> Judgement:
        """The verdict of a judge who reads what a pool of judges said about the same view."""
        openings = dict(
            zip(pool, await asyncio.gather(*(self.single(m) for m in pool)), strict=True)
        )
        order = self._shuffled(pool)
        place = f"{self.key}/{judge} over {'+'.join(pool)}/{mode}"
        names = LETTERS if mode == "select" else "123456789"
        shown = [
            Evaluation(f"Referee {name}", openings[member].text)
            for name, member in zip(names, order, strict=False)
        ]
        if mode == "conclude":
            return await self._scores("judge", judge, shown, place, "judgements")
        letters = names[: len(pool)]
        turn, letter = await self._until_parsed(
            lambda at: self._say("select", judge, shown, at, names=letters),
            lambda text: parse_referee(text, letters),
            place,
        )
        if letter is None:
            return Judgement(turn=turn, scores=None)
        member = order[letters.index(letter)]
        return Judgement(turn=turn, scores=openings[member].scores, chosen=member)

    def _shuffled(self, pool: Sequence[str]) -> list[str]:
        """Which referee is A: the same in all conditions and reruns of an item, or in each anew.

        A rerun is what the conditions are measured against, so it changes no more than they do.
        """
        where = "" if self.settings.meta.order == "per_item_paired" else self.key
        order = list(pool)
        Random(seed_of(self.seats.seed, f"{self.seats.item}/{where}/pool")).shuffle(order)
        return order

    async def _scores(
        self,
        seat: Seat,
        model: str,
        history: Sequence[Evaluation],
        place: str,
        history_is: str = "evaluations",
    ) -> Judgement:
        turn, scores = await self._until_parsed(
            lambda at: self._say(seat, model, history, at, history_is=history_is),
            parse_scores,
            place,
        )
        return Judgement(turn=turn, scores=scores)

    async def _until_parsed(
        self,
        say: Callable[[str], Awaitable[StudyTurn]],
        parse: Callable[[str], T | None],
        place: str,
    ) -> tuple[StudyTurn, T | None]:
        """The first attempt that holds a verdict, else the last one, with what it holds."""
        turn = await say(place)
        for attempt in range(1, self.settings.reask + 1):
            if parse(as_lines(turn.text)) is not None:
                break
            turn = await say(f"{place}/again/{attempt}")
        return turn, parse(as_lines(turn.text))

    async def _say(
        self,
        seat: Seat,
        model: str,
        history: Sequence[Evaluation],
        place: str,
        names: Sequence[str] = (),
        history_is: str = "evaluations",
    ) -> StudyTurn:
        # The critic's text holds no verdict that is read.
        as_json = self.settings.form == "json" and seat != "critic"
        prompt = segments(
            seat, self.view, history, names=names, history_is=history_is, json=as_json
        )
        schema = None
        if as_json:
            most = CHARACTERS_A_TOKEN * max(20, self.settings.max_tokens - VERDICT_TOKENS)
            schema = referee_schema(most, names) if names else score_schema(most)
        return await self.seats.say(
            seat,
            model,
            prompt.text,
            place,
            system=render("helper"),
            max_tokens=self.settings.max_tokens,
            temperature=self.settings.temperature,
            documents=prompt.documents,
            json_schema=schema,
        )
