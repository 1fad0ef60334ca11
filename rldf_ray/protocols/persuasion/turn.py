"""A turn: sample, keep what has the form, choose; criticise, rewrite, choose again.

METHOD-persuasion 1.4, algorithm 1. Nothing is said in a debater's name that it did not say: a turn
without an argument fails its debate, and is counted.
"""

from __future__ import annotations

from dataclasses import dataclass

from rldf_ray.errors import UserError
from rldf_ray.models.base import Message
from rldf_ray.protocols.persuasion.prompt import (
    SYSTEM,
    expert_view,
    question_prompt,
    render,
    rules,
    speaker_names,
)
from rldf_ray.protocols.persuasion.quotes import Checked, check, cut
from rldf_ray.protocols.persuasion.selection import (
    Candidate,
    Selected,
    log_share,
    parsed,
    select,
)
from rldf_ray.protocols.persuasion.settings import (
    DebaterSection,
    LengthSection,
    PersuasionSettings,
)
from rldf_ray.protocols.persuasion.transcript import (
    OTHER_SIDE,
    PersuasionItem,
    Said,
    Side,
    Transcript,
    letter_of,
)
from rldf_ray.protocols.seats import Seats

CRITIQUE_WORD = "critique"
CRITIQUE_POINTS = {"debate": (2, 150), "consultancy": (4, 300)}
"""Points and words of a critique."""


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
        place = f"{self.key}/{number}/{self.side}"
        request = self._request(transcript, number)
        samples = await self._sampled([Message("user", request)], f"{place}/turn", "")
        first = await select(
            samples,
            self.debater.best_of,
            lambda one, n: self._rated(transcript, number, one, f"{place}/rate {n}"),
        )
        if first.chosen is None:
            raise NoArgumentError(
                f"{self.item.item_id}: none of {len(samples)} samples of the {self.side} side in "
                f"round {number} holds an argument"
            )
        chosen, critique, refined = first.chosen, None, None
        if self.debater.critiques:
            critique = await self._criticised(transcript, number, chosen, place)
            refined = await self._refined(transcript, number, request, chosen, critique, place)
            if refined.chosen is not None:
                chosen = refined.chosen
        checked, was_cut = self._shown(chosen)
        return Turn(
            side=self.side,
            round=number,
            checked=checked,
            was_cut=was_cut,
            first=first,
            critique=critique,
            refined=refined,
        )

    @property
    def _consultancy(self) -> bool:
        return self.key.startswith("consultancy")

    @property
    def _length(self) -> LengthSection:
        settings = self.settings
        return settings.consultancy_length if self._consultancy else settings.debate_length

    def _request(self, transcript: Transcript, number: int) -> str:
        name, opponent = speaker_names(transcript, self.side)
        asked = any(one.side is None and one.round == number for one in transcript.said)
        request = render(
            "turn",
            consultancy=self._consultancy,
            name=name,
            opponent=opponent,
            own=self.item.answer(self.side),
            other=self.item.answer(OTHER_SIDE[self.side]),
            # Static debates are held without letters: they are judged in both positions.
            letter=letter_of(self.side, transcript.position) if self._knows_letters else "",
            round=number,
            words=self._length.words,
            asked=asked,
            wins=self.interactive or self._consultancy,
        )
        return f"{expert_view(self.item, transcript, self.side)}\n\n{request}"

    @property
    def _knows_letters(self) -> bool:
        held_twice = self.interactive or self.settings.order == "sequential"
        return held_twice and not self._consultancy

    async def _sampled(self, messages: list[Message], place: str, without: str) -> list[Candidate]:
        """Samples of the debater, more than are wanted, as some have not the form."""
        turns = await self.seats.say_n(
            self.side,
            self.debater.model,
            messages,
            place,
            number=self.settings.oversampling * self.debater.best_of,
            system=SYSTEM,
            max_tokens=self.settings.max_tokens,
            temperature=self.debater.sampling(self._consultancy),
        )
        return [parsed(turn.text, self._length, without) for turn in turns]

    async def _rated(
        self, transcript: Transcript, number: int, candidate: Candidate, place: str
    ) -> float | None:
        """Log-probability of its own letter, the other side claiming to be right (P15)."""
        said = [Said(number, self.side, self._shown(candidate)[0].text)]
        other = OTHER_SIDE[self.side]
        spoken = any(one.round == number and one.side == other for one in transcript.said)
        if not (self._consultancy or spoken):
            said.append(Said(number, other, render("dummy")))
        position = transcript.position
        side = self.side if self._consultancy else None
        prompt = question_prompt(self.item, position, transcript.plus(*said))
        asked = render("rate", rules=rules(transcript.kind, position, side))
        choice = await self.seats.choose(
            "preference",
            self.settings.rater,
            f"{prompt}\n\n{asked}",
            ("A", "B"),
            place,
            SYSTEM,
        )
        return log_share(choice.probabilities, letter_of(self.side, position))

    def _shown(self, candidate: Candidate) -> tuple[Checked, bool]:
        """An argument as everybody is shown it, and whether it was cut."""
        assert candidate.text is not None
        text, was_cut = cut(candidate.text, self._length.most)
        return check(text, self.item.story), was_cut

    async def _criticised(
        self, transcript: Transcript, number: int, argument: Candidate, place: str
    ) -> Selected:
        """Critiques of the chosen argument, and the most helpful of them."""
        kind = transcript.kind
        points, words = CRITIQUE_POINTS[kind]
        name, _ = speaker_names(transcript, self.side)
        said = self._shown(argument)[0].text
        shown = {"name": name, "own": self.item.answer(self.side), "argument": said}
        asked = any(one.side is None and one.round == number for one in transcript.said)
        request = render("critique", **shown, points=points, words=words, asked=asked)
        critiques = self.debater.critiques
        turns = await self.seats.say_n(
            "critic",
            self.settings.critic or self.debater.model,
            [Message("user", f"{expert_view(self.item, transcript, self.side)}\n\n{request}")],
            f"{place}/critique",
            number=critiques,
            system=SYSTEM,
            max_tokens=self.settings.max_tokens,
            temperature=0.6 if critiques < 8 else 0.8,
        )
        samples = [
            Candidate(raw=t.text, thinking="", text=text or None, valid=bool(text))
            for t in turns
            for text in [t.text.strip()]
        ]

        async def helpful(critique: Candidate, n: int) -> float | None:
            prompt = question_prompt(self.item, transcript.position, transcript)
            question = render("helpful", **shown, critique=critique.text)
            choice = await self.seats.choose(
                "preference",
                self.settings.rater,
                f"{prompt}\n\n{question}",
                ("Y", "N"),
                f"{place}/helpful {n}",
                SYSTEM,
            )
            return log_share(choice.probabilities, "Y")

        return await select(samples, critiques, helpful)

    async def _refined(
        self,
        transcript: Transcript,
        number: int,
        request: str,
        argument: Candidate,
        critique: Selected,
        place: str,
    ) -> Selected:
        """Rewritings after the critique, and the best of them."""
        if critique.chosen is None:
            return Selected(chosen=None, candidates=(), topped_up=0)
        asked = render("refine", critique=critique.chosen.text, words=self._length.words)
        messages = [
            Message("user", request),
            Message("assistant", argument.raw),
            Message("user", asked),
        ]
        samples = await self._sampled(messages, f"{place}/refine", CRITIQUE_WORD)
        return await select(
            samples,
            self.debater.best_of,
            lambda one, n: self._rated(transcript, number, one, f"{place}/rate refined {n}"),
        )
