"""A turn: sample, keep what has the form, choose; criticise, rewrite, choose again.

The paper's Algorithm 1. Nothing is said in a debater's name that it did not say: a turn without an
argument fails its debate, and is counted.
"""

from __future__ import annotations

from dataclasses import dataclass

from rldf_ray.errors import UserError
from rldf_ray.models.base import Message
from rldf_ray.protocols.persuasion.prompt import question_prompt, render, rules
from rldf_ray.protocols.persuasion.quotes import Checked
from rldf_ray.protocols.persuasion.selection import (
    Candidate,
    Selected,
    log_share,
    parsed,
    select,
)
from rldf_ray.protocols.persuasion.settings import DebaterSection, PersuasionSettings
from rldf_ray.protocols.persuasion.transcript import (
    OTHER_SIDE,
    PersuasionItem,
    Said,
    Side,
    Transcript,
    letter_of,
)
from rldf_ray.protocols.persuasion.turn_prompt import TurnPrompt
from rldf_ray.protocols.seats import Seats

CRITIQUE_WORD = "critique"


class NoArgumentError(UserError):
    """No sample of a turn holds an argument."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A finished turn.

    Attributes:
        checked: the argument as everybody is shown it.
        was_cut: it was longer than is shown.
        first: what was chosen among the debater's samples.
        critique: the one that was chosen, and what it was chosen from; None without critiques.
        refined: what was chosen among the rewritings; the first argument is out (algorithm 1).
    """

    side: Side
    round: int
    checked: Checked
    was_cut: bool
    first: Selected
    critique: Selected | None
    refined: Selected | None


@dataclass(frozen=True, kw_only=True)
class Speaker:
    """One side of a debate, or a consultant, at work on one item.

    Attributes:
        key: names the debate in the addresses of its requests.
    """

    item: PersuasionItem
    side: Side
    debater: DebaterSection
    settings: PersuasionSettings
    seats: Seats
    key: str
    interactive: bool

    async def turn(self, transcript: Transcript, number: int) -> Turn:
        """What it says in a round.

        Args:
            transcript: what it may see: everything before, and the judge's question of the round.

        Raises:
            NoArgumentError: none of its samples holds an argument.
            NoProbabilitiesError, ModelError: it could not be chosen, or said.
        """
        prompt = TurnPrompt(
            item=self.item,
            side=self.side,
            settings=self.settings,
            interactive=self.interactive,
            transcript=transcript,
            round=number,
        )
        place = f"{self.key}/{number}/{self.side}"
        samples = await self._sampled(prompt, prompt.turn(), f"{place}/turn", "")
        first = await select(
            samples,
            self.debater.best_of,
            lambda one, n: self._rated(prompt, one, f"{place}/rate {n}"),
        )
        if first.chosen is None:
            raise NoArgumentError(
                f"{self.item.item_id}: none of {len(samples)} samples of the {self.side} side in "
                f"round {number} holds an argument"
            )
        chosen, critique, refined = first.chosen, None, None
        if self.debater.critiques:
            critique = await self._criticised(prompt, chosen, place)
            refined = await self._refined(prompt, chosen, critique, place)
            if refined.chosen is not None:
                chosen = refined.chosen
        checked, was_cut = prompt.shown(_text(chosen))
        return Turn(
            side=self.side,
            round=number,
            checked=checked,
            was_cut=was_cut,
            first=first,
            critique=critique,
            refined=refined,
        )

    async def _sampled(
        self, prompt: TurnPrompt, messages: list[Message], place: str, without: str
    ) -> list[Candidate]:
        """Samples of the debater, more than are wanted, as some have not the form."""
        turns = await self.seats.say_n(
            self.side,
            self.debater.model,
            messages,
            place,
            number=self.settings.oversampling * self.debater.best_of,
            system=render("system"),
            max_tokens=self.settings.max_tokens,
            temperature=self.debater.sampling(prompt.consultancy),
        )
        return [parsed(turn.text, prompt.length, without) for turn in turns]

    async def _rated(self, prompt: TurnPrompt, candidate: Candidate, place: str) -> float | None:
        """Log-probability of its own letter, the other side claiming to be right."""
        transcript, number = prompt.transcript, prompt.round
        said = [Said(number, self.side, prompt.shown(_text(candidate))[0].text)]
        other = OTHER_SIDE[self.side]
        spoken = any(one.round == number and one.side == other for one in transcript.said)
        if not (prompt.consultancy or spoken):
            said.append(Said(number, other, render("dummy")))
        position = transcript.position
        side = self.side if prompt.consultancy else None
        seen = question_prompt(self.item, position, transcript.plus(*said))
        asked = render("rate", rules=rules(transcript.kind, position, side))
        choice = await self.seats.choose(
            "preference",
            self.settings.rater,
            f"{seen}\n\n{asked}",
            ("A", "B"),
            place,
            render("system"),
        )
        return log_share(choice.probabilities, letter_of(self.side, position))

    async def _criticised(self, prompt: TurnPrompt, argument: Candidate, place: str) -> Selected:
        """Critiques of the chosen argument, and the most helpful of them."""
        critiques = self.debater.critiques
        turns = await self.seats.say_n(
            "critic",
            self.settings.critic or self.debater.model,
            prompt.critique(_text(argument)),
            f"{place}/critique",
            number=critiques,
            system=render("system"),
            max_tokens=self.settings.max_tokens,
            temperature=0.6 if critiques < 8 else 0.8,
        )
        samples = [
            Candidate(raw=t.text, thinking="", text=text or None, valid=bool(text))
            for t in turns
            for text in [t.text.strip()]
        ]
        transcript, shown = prompt.transcript, prompt.criticised(_text(argument))

        async def helpful(critique: Candidate, n: int) -> float | None:
            seen = question_prompt(self.item, transcript.position, transcript)
            question = render("helpful", **shown, critique=critique.text)
            choice = await self.seats.choose(
                "preference",
                self.settings.rater,
                f"{seen}\n\n{question}",
                ("Y", "N"),
                f"{place}/helpful {n}",
                render("system"),
            )
            return log_share(choice.probabilities, "Y")

        return await select(samples, critiques, helpful)

    async def _refined(
        self, prompt: TurnPrompt, argument: Candidate, critique: Selected, place: str
    ) -> Selected:
        """Rewritings after the critique, and the best of them."""
        if critique.chosen is None:
            return Selected(chosen=None, candidates=(), topped_up=0)
        messages = prompt.refine(argument.raw, _text(critique.chosen))
        samples = await self._sampled(prompt, messages, f"{place}/refine", CRITIQUE_WORD)
        return await select(
            samples,
            self.debater.best_of,
            lambda one, n: self._rated(prompt, one, f"{place}/rate refined {n}"),
        )


def _text(candidate: Candidate) -> str:
    """The text of one that was chosen from; those without are no candidates."""
    assert candidate.text is not None
    return candidate.text
