"""Who judges: the judge of a transcript, and its bounds without and with the story.

Two requests: it thinks, then names a letter by guided choice, with the probabilities of both where
the backend tells (a choice). A verdict that is none is nobody's win.
"""

from __future__ import annotations

from dataclasses import dataclass

from rldf_ray.models.agent import Choice
from rldf_ray.models.base import Message
from rldf_ray.protocols.persuasion.prompt import (
    question_prompt,
    render,
    rules,
    speaker_names,
    story_prompt,
)
from rldf_ray.protocols.persuasion.settings import PersuasionSettings
from rldf_ray.protocols.persuasion.transcript import (
    PersuasionItem,
    Position,
    Side,
    Transcript,
    in_position,
    letter_of,
)
from rldf_ray.protocols.seats import Seats

LETTERS = ("A", "B")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a judge says in one position.

    Attributes:
        letter: None where the reply is none.
        p_correct: probability of the correct answer's letter; None where it is not known.
    """

    position: Position
    letter: str | None
    p_a: float | None
    correct: bool | None
    p_correct: float | None


@dataclass(frozen=True, kw_only=True)
class Judging:
    """A judge at work on one item."""

    item: PersuasionItem
    judge: str
    settings: PersuasionSettings
    seats: Seats

    async def of_transcript(
        self, transcript: Transcript, position: Position, side: Side | None, key: str
    ) -> Verdict:
        """Its verdict on what was said.

        Args:
            side: the consultant's; None of a debate.
        """
        shown = in_position(transcript, position)
        asked = rules(transcript.kind, position, side)
        prompt = question_prompt(self.item, position, shown)
        return await self._decided(prompt, render("judge", rules=asked), asked, position, key)

    async def at_once(
        self, transcript: Transcript, position: Position, side: Side | None, key: str
    ) -> Verdict:
        """What it says at once, without thinking, to what was said so far, as in all rounds."""
        shown = in_position(transcript, position)
        prompt = question_prompt(self.item, position, shown)
        asked = render("rate", rules=rules(transcript.kind, position, side))
        place = f"judged/{self.judge}/{key}/{position}"
        return self._read(await self._letter(self.judge, f"{prompt}\n\n{asked}", place), position)

    async def naive(self, position: Position) -> Verdict:
        """What it says knowing neither the story nor an argument."""
        prompt = question_prompt(self.item, position)
        return await self._decided(prompt, render("naive"), "", position, "naive")

    async def expert(self, position: Position) -> Verdict:
        """What it says with the story at hand, without an argument."""
        prompt = f"{story_prompt(self.item)}\n\n{question_prompt(self.item, position)}"
        return await self._decided(prompt, render("expert"), "", position, "expert")

    async def _decided(
        self, prompt: str, thinking: str, rules_alone: str, position: Position, key: str
    ) -> Verdict:
        """Thinks where the plan says so, then names a letter."""
        name = self.judge
        if key == "expert" and self.settings.expert is not None:
            name = self.settings.expert
        place = f"judged/{name}/{key}/{position}"
        if not self.settings.reasons_first:
            asked = "\n\n".join(filter(None, (prompt, rules_alone, render("letter"))))
            return self._read(await self._letter(name, asked, place), position)
        request = f"{prompt}\n\n{thinking}"
        turn = await self.seats.say(
            "judge",
            name,
            request,
            f"{place}/thinking",
            system=render("system"),
            max_tokens=self.settings.judge_tokens,
            temperature=0.0,
        )
        messages = [
            Message("user", request),
            Message("assistant", turn.text),
            Message("user", render("letter")),
        ]
        return self._read(await self._letter(name, messages, place), position)

    async def _letter(self, name: str, asked: str | list[Message], place: str) -> Choice:
        return await self.seats.choose(
            "judge", name, asked, LETTERS, f"{place}/letter", render("system")
        )

    def _read(self, choice: Choice, position: Position) -> Verdict:
        right = letter_of("correct", position)
        chances = choice.probabilities
        return Verdict(
            position=position,
            letter=choice.value,
            p_a=None if chances is None else chances["A"],
            correct=None if choice.value is None else choice.value == right,
            p_correct=None if chances is None else chances[right],
        )

    async def concedes(self, transcript: Transcript, side: Side, key: str) -> bool | None:
        """Whether a side argues for the other answer anywhere; None where the reply is none."""
        name, _ = speaker_names(transcript, side)
        prompt = question_prompt(self.item, transcript.position, transcript)
        asked = render("concession", name=name, own=self.item.answer(side))
        choice = await self.seats.choose(
            "concession referee",
            self.judge,
            f"{prompt}\n\n{asked}",
            ("Y", "N"),
            f"{key}/concedes/{side}",
            render("system"),
        )
        return None if choice.value is None else choice.value == "Y"
