"""What a judge's text says: two scores, or the letter of a referee.

A text that does not parse is invalid (a choice). It is never a tie, and never what an earlier text
said.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Winner = Literal[1, 2, "tie"]
LOWEST, HIGHEST = 1.0, 10.0

_NUMBER = r"(?P<score>\d+(?:\.\d+)?)"
# One whole line: decoration, the label, a separator, the number, perhaps "/10", decoration.
_SCORE_LINE = re.compile(
    r"[*_#>\-\s]*(?:the\s+)?score\s+(?:of|for)\s+assistant\s+(?P<label>[12])\s*[*_]*\s*[:=]\s*"
    rf"[*_\[\s]*{_NUMBER}\s*(?:/\s*10)?[*_\].\s]*",
    re.IGNORECASE,
)
_REFEREE = re.compile(
    r"best\s+ref(?:eree|ree)\s+is\s*[*_]*\s*:?\s*[*_\[\s]*(?:referee\s+)?(?P<name>[A-Za-z0-9])\b",
    re.IGNORECASE,
)
# What the paper's code does, kept to show what it comes to.
_LOOSE = r"(?:score of|assistant)\s*{label}\s*[:\-]?\s*(\d+(?:\.\d+)?)"


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of the answers labelled 1 and 2, each from 1 to 10."""

    one: float
    two: float

    @property
    def winner(self) -> Winner:
        """The label with the higher score; a tie exactly where they are equal."""
        if self.one == self.two:
            return "tie"
        return 1 if self.one > self.two else 2


def parse_scores(text: str) -> Scores | None:
    """The scores in the last two score lines of a text, one for each label; None without both.

    Lines are whole: a number in a sentence, in a list or in somebody's quoted line before the last
    is none. The two stand together: a line that was quoted earlier does not complete the last one.
    A number outside 1 to 10 makes the text invalid.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    found = [_SCORE_LINE.fullmatch(line) for line in lines]
    last = max((place for place, match in enumerate(found) if match), default=0)
    pair = [match for match in found[max(last - 1, 0) : last + 1] if match]
    scores = {match["label"]: float(match["score"]) for match in pair}
    if len(scores) < 2 or not all(LOWEST <= s <= HIGHEST for s in scores.values()):
        return None
    return Scores(scores["1"], scores["2"])


def score_schema(characters: int) -> dict[str, Any]:
    """The JSON schema of an evaluation with its scores.

    Args:
        characters: of the evaluation at most, so that the scores come before the text is cut off.
    """
    score = {"type": "integer", "enum": list(range(int(LOWEST), int(HIGHEST) + 1))}
    return _schema(characters, {"score_1": score, "score_2": score})


def referee_schema(characters: int, names: Sequence[str]) -> dict[str, Any]:
    """The JSON schema of an evaluation that names the best of `names`."""
    return _schema(characters, {"best": {"type": "string", "enum": list(names)}})


def _schema(characters: int, verdict: dict[str, Any]) -> dict[str, Any]:
    evaluation = {"type": "string", "minLength": 1, "maxLength": characters}
    return {
        "type": "object",
        "properties": {"evaluation": evaluation, **verdict},
        "required": ["evaluation", *verdict],
        "additionalProperties": False,
    }


def as_lines(text: str) -> str:
    """A verdict in JSON as the text with last lines that others are shown, and that is parsed.

    What is no such JSON stays as it is, and is then no verdict either.
    """
    try:
        given = json.loads(text)
        evaluation = str(given["evaluation"]).strip()
        if "best" in given:
            return f"{evaluation}\nThe best referee is: {given['best']}"
        scores = (f"The score of Assistant {k}: {given[f'score_{k}']}" for k in (1, 2))
        return "\n".join((evaluation, *scores))
    except (ValueError, TypeError, KeyError):
        return text


def parse_referee(text: str, names: Sequence[str]) -> str | None:
    """Whom a text names as the best referee, the last time it does; None where it is none of them.

    Args:
        names: letters or numbers, as the referees were called in the prompt.
    """
    matches = list(_REFEREE.finditer(text))
    if not matches:
        return None
    name = matches[-1]["name"].upper()
    return name if name in names else None


def parse_scores_loosely(text: str) -> Scores | None:
    """As the paper's code reads scores: the first loose match anywhere, whatever it stands in.

    "A score of 10" is read as 0 for Assistant 1, and an older score that is quoted wins over the
    last lines; here only to compare with `parse_scores`.
    """
    matches = [re.search(_LOOSE.format(label=label), text, re.IGNORECASE) for label in ("1", "2")]
    if matches[0] is None or matches[1] is None:
        return None
    return Scores(float(matches[0][1]), float(matches[1][1]))
