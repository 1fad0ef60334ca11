"""What was said, and what each role may see of it; a position is a rendering, not other data.

In the plain position the correct answer is A, in the swapped one B.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from rldf_ray.storage.digest import digest

Side = Literal["correct", "incorrect"]
Position = Literal["plain", "swapped"]
Letter = Literal["A", "B"]
Kind = Literal["debate", "consultancy"]

OTHER_SIDE: dict[Side, Side] = {"correct": "incorrect", "incorrect": "correct"}
POSITIONS: tuple[Position, ...] = ("plain", "swapped")
OTHER_POSITION: dict[Position, Position] = {"plain": "swapped", "swapped": "plain"}
CONSULTANT, JUDGE = "Consultant", "Judge"
MARK = '"""'
"""Around every text of a transcript as models see it."""
_ONE = r"[AB](?![^\W_])"
_MARKED = r"[*\"'`(\[\u201c\u2018]+[ABab][*\"'`)\]\u201d\u2019]+"
_MORE = (
    rf"(?:\s*(?:,\s*)?(?:[&/,]|\b(?:and|or|versus|vs?)\b\.?)\s*(?:{_ONE}|{_MARKED})"
    rf"|\s*[(\[]{_ONE}[)\]])*"
)
# A small a that none of these follows may be an article.
_AFTER = (
    r"(?=['\u2019]s\b|\s*[,.;:!?)]|\s*\Z|\s+(?:and|or|versus|vs|is|was|has|had|does|did|says|said"
    r"|claims|argues|cites|quotes|states|makes|offers|fails|who)\b)"
)
_NAMED = re.compile(
    # Debater A, DEBATER-B, Debater **A**, Debater A (B), Debaters A and B, option A, answer "B".
    rf"(?<![^\W_])(?i:debaters?|opponents?|answers?|options?)(?:[\s_-]+{_ONE}|\s*{_MARKED}){_MORE}"
    # My opponent, B, says.
    rf"|(?<![^\W_])(?i:opponents?|answers?|options?),\s+{_ONE}{_MORE}(?=\s*[,.;:!?)])"
    # debaters a and b; debater a says.
    r"|(?<![^\W_])(?i:debaters)[\s_-]+[ab]\s+(?:&|and|or)\s+[ab]\b"
    rf"|(?<![^\W_])(?i:debaters?)[\s_-]+[ab]{_AFTER}"
    # A's argument.
    r"|\b[AB](?=['\u2019]s\s+(?:argument|claim|point|quote|position|side|answer|case|evidence)s?\b)"
)
_LETTER = re.compile(r"(?<![^\W_])[ABab](?![^\W_])")
_OTHER_LETTER = str.maketrans("ABab", "BAba")
_VERIFIED = re.compile(r"(<v_quote>.*?</v_quote>)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class PersuasionItem:
    """A question about a story, with a correct and an incorrect answer.

    Attributes:
        group: the story, which intervals resample.
        agrees: whether the truth is what a stereotype says; None where that is not known.
    """

    item_id: str
    group: str
    story: str
    question: str
    correct: str
    incorrect: str
    title: str = ""
    category: str = ""
    agrees: bool | None = None

    @property
    def address(self) -> str:
        return self.item_id

    def answer(self, side: Side) -> str:
        """What a side defends."""
        return self.correct if side == "correct" else self.incorrect


def drawn_position(item: PersuasionItem) -> Position:
    """Where an item's static debates and consultancies are held: either position, by its id.

    So that the correct side is not always the one that writes, is rated and stands first as A.
    """
    return POSITIONS[int(digest(item.item_id, "position"), 16) % len(POSITIONS)]


def letter_of(side: Side, position: Position) -> Letter:
    """The letter of a side's answer."""
    return "A" if (side == "correct") == (position == "plain") else "B"


def side_of(letter: Letter, position: Position) -> Side:
    """Whose answer a letter stands for."""
    return "correct" if (letter == "A") == (position == "plain") else "incorrect"


def name_of(side: Side, position: Position, kind: Kind) -> str:
    """What a speaker is called."""
    return CONSULTANT if kind == "consultancy" else f"Debater {letter_of(side, position)}"


@dataclass(frozen=True, slots=True)
class Said:
    """One text of a transcript.

    Attributes:
        side: whose it is; None is the judge's question.
    """

    round: int
    side: Side | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """What was said so far.

    Attributes:
        position: the one that the speakers know themselves in.
        said: in the order in which it came; within a round the judge's question first.
    """

    kind: Kind
    position: Position
    said: tuple[Said, ...] = ()

    def plus(self, *more: Said) -> Transcript:
        """The transcript with more said."""
        return replace(self, said=(*self.said, *more))

    @property
    def rounds(self) -> int:
        return max((one.round for one in self.said), default=0)


def swapped(transcript: Transcript) -> Transcript:
    """The same in the other position: debaters change names, in every text (a choice).

    A consultant keeps its name, and knows no letters. Swapped twice it is what it was.
    """
    said = transcript.said
    if transcript.kind == "debate":
        said = tuple(replace(one, text=exchanged(one.text)) for one in said)
    return replace(transcript, position=OTHER_POSITION[transcript.position], said=said)


def exchanged(text: str) -> str:
    """A text with Debater A and Debater B exchanged, but for what the story says.

    A name is changed for one of the same form, which is found again: twice is the identity.
    """
    # split gives text, quote, text, quote, ...
    return "".join(
        part if place % 2 else _NAMED.sub(_other_names, part)
        for place, part in enumerate(_VERIFIED.split(text))
    )


def times_named(text: str) -> int:
    """How often a text names debaters or answers by their letters, and is changed for it."""
    return sum(len(_NAMED.findall(part)) for part in _VERIFIED.split(text)[::2])


def _other_names(match: re.Match[str]) -> str:
    return _LETTER.sub(lambda letter: letter[0].translate(_OTHER_LETTER), match[0])


def in_position(transcript: Transcript, position: Position) -> Transcript:
    """The transcript as it is in a position."""
    return transcript if transcript.position == position else swapped(transcript)


def rendered(transcript: Transcript, position: Position, first: Side | None = None) -> str:
    """The transcript as a role sees it in a position.

    Args:
        first: whose argument stands first in each round: a debater's own; None is A's.
    """
    shown = in_position(transcript, position)
    blocks = []
    for number in range(1, shown.rounds + 1):
        texts = [one for one in shown.said if one.round == number]
        ordered = sorted(texts, key=lambda one: _order(one, position, first))
        # Nobody ends its own text and goes on as another.
        lines = [
            f'{_speaker(one, position, shown.kind)}: """{one.text.replace(MARK, "")}"""'
            for one in ordered
        ]
        blocks.append("\n".join([f"Round {number}", *lines]))
    return "\n\n".join(blocks)


def _order(one: Said, position: Position, first: Side | None) -> int:
    """The judge's question, then the first argument, then the other."""
    if one.side is None:
        return 0
    leading = side_of("A", position) if first is None else first
    return 1 if one.side == leading else 2


def _speaker(one: Said, position: Position, kind: Kind) -> str:
    return JUDGE if one.side is None else name_of(one.side, position, kind)
