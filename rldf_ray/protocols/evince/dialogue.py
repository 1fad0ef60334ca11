"""The dialogue: A and B dispute a label over rounds, and are measured, steered and stopped.

    1  A opens on the text alone; B has read A, refutes, and estimates      the paper, Figure 1
    2  metrics, CRIT, repetition -> stop, or the level of the next round    sections 3.2.2, 3.2.3
    3  A answers B, B answers A; and so on

A turn that fails twice, and any other reply that cannot be used, ends the dialogue as failed;
nothing is put in its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rldf_ray.models.base import Message
from rldf_ray.protocols.evince.arguments import Argument, ReasonScores
from rldf_ray.protocols.evince.crit import Critic, Rated
from rldf_ray.protocols.evince.distribution import label_distribution
from rldf_ray.protocols.evince.errors import ReplyError, TurnError
from rldf_ray.protocols.evince.metrics import entropy, mean_metrics, metrics, wasserstein
from rldf_ray.protocols.evince.prompt import (
    Recorded,
    Stance,
    View,
    rated,
    render,
    turn_prompt,
)
from rldf_ray.protocols.evince.scale import Distribution, LabelScale
from rldf_ray.protocols.evince.settings import EvinceSettings
from rldf_ray.protocols.evince.steering import Status, first_level, next_level, stopped
from rldf_ray.protocols.evince.trace import OTHER, Round, Side
from rldf_ray.protocols.evince.turn import SaidTurn, parse_turn, turn_schema
from rldf_ray.protocols.seats import Seats, all_of

DUALITY_BITS = 0.3
DUALITY_STEPS = 0.25
DUALITY_TRIES = 2
"""Times that B is asked again for a first turn that differs enough from A's (a choice)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """A turn and the distributions that count for it.

    Attributes:
        distributions: by `settings.distribution`, one for each thing that is rated.
    """

    said: SaidTurn
    distributions: tuple[Distribution, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispute:
    """A dialogue that has ended.

    Attributes:
        failure: why it failed; None where it did not.
        rounds: those that both sides spoke in; the trace that was steered by.
        turns: by side and round.
        scores: of arguments, by id.
        dual: whether the first distributions differ as much as `initial: duality` wants.
    """

    status: Status | Literal["failed"]
    failure: str | None
    rounds: Sequence[Round]
    turns: Mapping[tuple[Side, int], Spoken]
    scores: Mapping[str, ReasonScores]
    dual: bool | None


@dataclass(kw_only=True)
class Dialogue:
    """One dialogue about one text.

    Attributes:
        key: names it in the addresses of its requests.
        text: `text_prompt`, with which all requests begin.
        source: the text itself, in which quotes are looked for.
        on_turn, on_round: called as each is there, for those who watch.
    """

    key: str
    text: str
    source: str
    stances: Mapping[Side, Stance]
    scale: LabelScale
    settings: EvinceSettings
    seats: Seats
    on_turn: Callable[[Side, int, Spoken], None] = lambda side, number, spoken: None
    on_round: Callable[[int, Round], None] = lambda number, measured: None
    _rounds: list[Round] = field(default_factory=list)
    _turns: dict[tuple[Side, int], Spoken] = field(default_factory=dict)
    _record: list[Recorded] = field(default_factory=list)
    _scores: dict[str, ReasonScores] = field(default_factory=dict)
    _dual: bool | None = None

    async def hold(self) -> Dispute:
        """The dialogue to its end.

        Raises:
            ModelError: a model could not answer.
        """
        steering, stop, scale = self.settings.steering, self.settings.stop, self.scale
        level = first_level(steering)
        status: Status | Literal["failed"] | None = None
        failure = None
        while status is None:
            try:
                await self._speak(level)
                self._rounds.append(await self._measured(level))
                self.on_round(len(self._rounds), self._rounds[-1])
            except ReplyError as error:
                status, failure = "failed", str(error)
                break
            status = stopped(self._rounds, steering, stop, scale)
            level = next_level(self._rounds, steering, stop, scale)
        return Dispute(
            status=status,
            failure=failure,
            rounds=self._rounds,
            turns=self._turns,
            scores=self._scores,
            dual=self._dual,
        )

    async def _speak(self, level: float) -> None:
        """Both sides' turns of the next round."""
        number = len(self._rounds) + 1
        if self.settings.order == "simultaneous":
            turns = await all_of(self._turn("A", number, level), self._turn("B", number, level))
            self._keep("A", number, turns[0])
            self._keep("B", number, turns[1])
            return
        self._keep("A", number, await self._turn("A", number, level))
        spoken = await self._turn("B", number, level)
        if number == 1:
            spoken = await self._duel(level, spoken)
        self._keep("B", number, spoken)

    async def _duel(self, level: float, spoken: Spoken) -> Spoken:
        """B's first turn, asked again where it differs too little from A's (section 3.2.1)."""
        first = self._turns["A", 1].distributions[0]
        tries = DUALITY_TRIES if self.settings.initial == "duality" else 0
        for attempt in range(tries + 1):
            mine = spoken.distributions[0]
            self._dual = (
                abs(entropy(first) - entropy(mine)) >= DUALITY_BITS
                and wasserstein(first, mine, self.scale) >= DUALITY_STEPS
            )
            if self._dual or attempt == tries:
                break
            try:
                spoken = await self._turn("B", 1, level, f"/dual {attempt + 1}")
            except ReplyError:
                # The turn before is whole, and the dialogue goes on from it.
                break
        return spoken

    def _keep(self, side: Side, number: int, spoken: Spoken) -> None:
        self._turns[side, number] = spoken
        self._record.append(Recorded(side=side, round=number, said=spoken.said))
        self.on_turn(side, number, spoken)

    def _view(self, side: Side) -> View:
        """Everything that was said so far, and each side's latest distributions."""
        return View(
            record=tuple(self._record),
            theirs=self._latest(OTHER[side]),
            own=self._latest(side),
        )

    def _latest(self, side: Side) -> tuple[Distribution, ...] | None:
        spoken = [turn.distributions for (who, _), turn in self._turns.items() if who == side]
        return spoken[-1] if spoken else None

    async def _turn(self, side: Side, number: int, level: float, again: str = "") -> Spoken:
        """A side's turn; one that is none is asked for once more.

        Raises:
            TurnError: it is none again.
        """
        spread = self.settings.initial == "duality" and number == 1
        prompt = turn_prompt(
            self.text,
            side,
            self.stances[side],
            level,
            self._view(side),
            self.scale,
            self.settings,
            spread=spread,
        )
        place = f"{self.key}/{side}{number}{again}"
        try:
            return await self._asked(side, number, prompt, place)
        except TurnError:
            return await self._asked(side, number, prompt, f"{place}/again")

    async def _asked(self, side: Side, number: int, prompt: str, place: str) -> Spoken:
        settings = self.settings
        others = [
            one.argument_id
            for turn in self._record
            if turn.side != side
            for one in turn.said.arguments
        ]
        names = rated(settings)
        first = settings.first_temperature if number == 1 else None
        turn = await self.seats.say(
            side,
            self._model(side),
            prompt,
            place,
            system=render("helper"),
            max_tokens=settings.max_tokens,
            temperature=settings.temperature if first is None else first,
            # The same in all arms, which are held against each other.
            seed_place=f"{side}{number}{place.partition(f'/{side}{number}')[2]}",
            json_schema=turn_schema(self.scale, others, names, settings.max_arguments),
        )
        said = parse_turn(
            turn.text,
            scale=self.scale,
            side=side,
            round_=number,
            source=self.source,
            others=others,
            rated=names,
            most=settings.max_arguments,
        )
        if settings.distribution == "said":
            return Spoken(said=said, distributions=said.distributions())
        asked = [Message("user", prompt), Message("assistant", turn.text)]
        counted = [
            await label_distribution(
                self.seats, side, self._model(side), asked, name, place, self.scale, settings
            )
            for name in names
        ]
        return Spoken(said=said, distributions=tuple(counted))

    def _model(self, side: Side) -> str:
        return self.settings.a if side == "A" else self.settings.b

    async def _measured(self, level: float) -> Round:
        """The round that both sides have spoken in."""
        number = len(self._rounds) + 1
        a, b = self._turns["A", number], self._turns["B", number]
        each = [
            metrics(one, other, self.scale)
            for one, other in zip(a.distributions, b.distributions, strict=True)
        ]
        found: list[Any] = await all_of(self._rated(a, b), self._repeated(number))
        rating, (repeated_a, repeated_b) = found
        return Round(
            level=level,
            a=a.distributions,
            b=b.distributions,
            metrics=mean_metrics(each),
            crit_a=None if rating is None else rating.crit["A"],
            crit_b=None if rating is None else rating.crit["B"],
            repeated_a=repeated_a,
            repeated_b=repeated_b,
        )

    @property
    def _critic(self) -> Critic:
        return Critic(
            seats=self.seats,
            name=self.settings.judge,
            text=self.text,
            settings=self.settings.crit,
        )

    async def _rated(self, a: Spoken, b: Spoken) -> Rated | None:
        if self.settings.crit.form == "off":
            return None
        rating = await self._critic.rate(
            {"A": a.said.arguments, "B": b.said.arguments},
            {
                "A": self.scale.label_of(a.distributions[0]),
                "B": self.scale.label_of(b.distributions[0]),
            },
        )
        self._scores.update(rating.scores)
        return rating

    async def _repeated(self, number: int) -> tuple[float | None, float | None]:
        """How much each side repeats of its last turn; nothing in round 1."""
        if number == 1:
            return None, None
        pairs = [
            (self._turns[side, number - 1].said.arguments, self._turns[side, number].said.arguments)
            for side in OTHER
        ]
        if self.settings.repeated == "text":
            a, b = (shared_words(before, now) for before, now in pairs)
        else:
            a, b = await all_of(*(self._critic.repeated(*pair) for pair in pairs))
        return a, b


def shared_words(before: Sequence[Argument], now: Sequence[Argument]) -> float:
    """Jaccard index of the words of two turns' claims and reasons."""
    one, other = (
        {
            word
            for argument in arguments
            for word in re.findall(r"\w+", f"{argument.claim} {argument.reason}".casefold())
        }
        for arguments in (before, now)
    )
    return len(one & other) / len(one | other) if one | other else 0.0
