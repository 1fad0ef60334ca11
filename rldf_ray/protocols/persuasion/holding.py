"""Debate and consultancy, with the judge's questions or without: the paper's protocols.

debate        in each round both sides argue; neither sees the other's argument of the round
consultancy   one expert argues, for the correct side once and for the incorrect side once
interactive   before rounds 2 to R the judge asks something, which all see
sequential    from round 2 on B reads A's argument of the same round
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rldf_ray.protocols.persuasion.prompt import question_prompt, render, rules
from rldf_ray.protocols.persuasion.selection import spoken
from rldf_ray.protocols.persuasion.settings import DebaterSection, PersuasionSettings
from rldf_ray.protocols.persuasion.transcript import (
    CONSULTANT,
    Kind,
    PersuasionItem,
    Position,
    Said,
    Side,
    Transcript,
    side_of,
)
from rldf_ray.protocols.persuasion.turn import NoArgumentError, Speaker, Turn
from rldf_ray.protocols.seats import Seats, all_of

QUESTION_TEMPERATURE = 0.4
_ASKED = re.compile(r"<question>(.*?)(?:</question>|$)", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialogue:
    """A debate or consultancy that has ended.

    Attributes:
        failure: why it failed; None where it did not. A failed one is judged by nobody.
    """

    transcript: Transcript
    turns: tuple[Turn, ...]
    failure: str | None = None


@dataclass(frozen=True, kw_only=True)
class Debating:
    """One debate or consultancy about one item, in one position.

    Attributes:
        key: begins with its kind, and names it in the addresses of its requests.
        sides: who argues for what; one in a consultancy.
        asks: the judge that asks between rounds; None without questions.
    """

    key: str
    item: PersuasionItem
    position: Position
    sides: Mapping[Side, DebaterSection]
    asks: str | None
    settings: PersuasionSettings
    seats: Seats

    async def hold(self) -> Dialogue:
        """All rounds.

        Raises:
            ModelError: a model could not answer.
        """
        kind: Kind = "debate" if len(self.sides) == 2 else "consultancy"
        transcript = Transcript(kind=kind, position=self.position)
        turns: list[Turn] = []
        for number in range(1, self.settings.rounds + 1):
            transcript = await self._asked(transcript, number)
            several = await self._round(transcript, number)
            made = [one for one in several if isinstance(one, Turn)]
            turns += made
            transcript = transcript.plus(*(_said(turn) for turn in made))
            failure = next((one for one in several if isinstance(one, str)), None)
            if failure is not None:
                return Dialogue(transcript=transcript, turns=tuple(turns), failure=failure)
        return Dialogue(transcript=transcript, turns=tuple(turns))

    async def _round(self, transcript: Transcript, number: int) -> list[Turn | str]:
        """What all sides say in a round, in the order in which it is shown, or why they do not."""
        sides = [
            side for letter in ("A", "B") if (side := side_of(letter, self.position)) in self.sides
        ]
        speakers = {side: self._speaker(side) for side in sides}
        if self.settings.order == "sequential" and number > 1 and len(sides) == 2:
            first = await _turn(speakers[sides[0]], transcript, number)
            if isinstance(first, str):
                return [first]
            heard = transcript.plus(_said(first))
            return [first, await _turn(speakers[sides[1]], heard, number)]
        # Both to their end, so that what one has made is not lost where the other fails.
        return await all_of(*(_turn(one, transcript, number) for one in speakers.values()))

    def _speaker(self, side: Side) -> Speaker:
        return Speaker(
            item=self.item,
            side=side,
            debater=self.sides[side],
            settings=self.settings,
            seats=self.seats,
            key=self.key,
            interactive=self.asks is not None,
        )

    async def _asked(self, transcript: Transcript, number: int) -> Transcript:
        """The transcript with the judge's question of the round, in interactive ones."""
        if self.asks is None or number == 1:
            return transcript
        side = next(iter(self.sides)) if transcript.kind == "consultancy" else None
        asked = render(
            "ask",
            rules=rules(transcript.kind, self.position, side),
            to=f"to the {CONSULTANT}" if side else "to Debater A and Debater B, by name",
        )
        prompt = question_prompt(self.item, self.position, transcript)
        turn = await self.seats.say(
            "interactive judge",
            self.asks,
            f"{prompt}\n\n{asked}",
            f"{self.key}/{number}/question",
            system=render("system"),
            max_tokens=self.settings.judge_tokens,
            temperature=QUESTION_TEMPERATURE,
        )
        question = question_of(turn.text)
        # A judge that asks nothing leaves the round without a question; none is made up.
        return transcript.plus(Said(number, None, question)) if question else transcript


def question_of(reply: str) -> str:
    """The question in a judge's reply; empty where it asks none."""
    asked = _ASKED.search(spoken(reply))
    return asked[1].strip() if asked else ""


async def _turn(speaker: Speaker, transcript: Transcript, number: int) -> Turn | str:
    """A turn, or why it has no argument, which ends its dialogue and nothing else."""
    try:
        return await speaker.turn(transcript, number)
    except NoArgumentError as error:
        return str(error)


def _said(turn: Turn) -> Said:
    return Said(turn.round, turn.side, turn.checked.text)
