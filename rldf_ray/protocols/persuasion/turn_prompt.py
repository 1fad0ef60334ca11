"""What a debater is asked in a round, what its critic is, and to rewrite after the critique.

Made of the item and of what was said alone, so that a finished study's requests can be made again.
"""

from __future__ import annotations

from dataclasses import dataclass

from rldf_ray.models.base import Message
from rldf_ray.protocols.persuasion.prompt import expert_view, render, speaker_names
from rldf_ray.protocols.persuasion.quotes import Checked, check, cut
from rldf_ray.protocols.persuasion.settings import LengthSection, PersuasionSettings
from rldf_ray.protocols.persuasion.transcript import (
    OTHER_SIDE,
    PersuasionItem,
    Side,
    Transcript,
    letter_of,
)

CRITIQUE_POINTS = {"debate": (2, 150), "consultancy": (4, 300)}
"""Points and words of a critique."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPrompt:
    """The requests of one side's turn in one round.

    Attributes:
        interactive: the judge asks between rounds.
        transcript: what the side may see: everything before, and the judge's question of the round.
    """

    item: PersuasionItem
    side: Side
    settings: PersuasionSettings
    interactive: bool
    transcript: Transcript
    round: int

    @property
    def consultancy(self) -> bool:
        return self.transcript.kind == "consultancy"

    @property
    def length(self) -> LengthSection:
        """Of an argument."""
        settings = self.settings
        return settings.consultancy_length if self.consultancy else settings.debate_length

    def shown(self, argument: str) -> tuple[Checked, bool]:
        """An argument as everybody is shown it, and whether it was cut."""
        text, was_cut = cut(argument, self.length.most)
        return check(text, self.item.story), was_cut

    def turn(self) -> list[Message]:
        """The request for an argument."""
        name, opponent = speaker_names(self.transcript, self.side)
        request = render(
            "turn",
            consultancy=self.consultancy,
            name=name,
            opponent=opponent,
            own=self.item.answer(self.side),
            other=self.item.answer(OTHER_SIDE[self.side]),
            # Static debates are held without letters: they are judged in both positions.
            letter=letter_of(self.side, self.transcript.position) if self._knows_letters else "",
            round=self.round,
            words=self.length.words,
            asked=self._asked,
            wins=self._wins,
        )
        return [Message("user", self._after_the_story(request))]

    def critique(self, argument: str) -> list[Message]:
        """The request for a critique of an argument, as it is shown."""
        points, words = CRITIQUE_POINTS[self.transcript.kind]
        request = render(
            "critique", **self.criticised(argument), points=points, words=words, asked=self._asked
        )
        return [Message("user", self._after_the_story(request))]

    def criticised(self, argument: str) -> dict[str, str]:
        """Whose argument a critique is of, and what it says."""
        name, _ = speaker_names(self.transcript, self.side)
        said = self.shown(argument)[0].text
        return {"name": name, "own": self.item.answer(self.side), "argument": said}

    def refine(self, sample: str, critique: str) -> list[Message]:
        """The request to rewrite: the turn's own, what came of it, and the critique.

        Args:
            sample: as it came, thinking included.
        """
        asked = render("refine", critique=critique, words=self.length.words)
        return [*self.turn(), Message("assistant", sample), Message("user", asked)]

    def _after_the_story(self, request: str) -> str:
        return f"{expert_view(self.item, self.transcript, self.side)}\n\n{request}"

    @property
    def _asked(self) -> bool:
        """Whether the judge asked something in the round."""
        said = self.transcript.said
        return any(one.side is None and one.round == self.round for one in said)

    @property
    def _wins(self) -> bool:
        published = self.interactive or self.consultancy
        return {"published": published, "always": True, "never": False}[self.settings.wins]

    @property
    def _knows_letters(self) -> bool:
        held_twice = self.interactive or self.settings.order == "sequential"
        return held_twice and not self.consultancy
