"""What a reasoning model thinks before its answer, split off from the answer.

The answer alone is said: statements, prompts and data never hold a thought, and a thought that was
cut off is no answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

BEGINS, ENDS = "<think>", "</think>"


@dataclass(frozen=True, slots=True)
class Spoken:
    """A model's text in its two parts.

    Attributes:
        thinking: without tags; empty where the model did not think.
        answer: holds none of the tags.
        ended: False where the text ends inside a thought, so that there is no answer.
        thought: whether there was a thought, be it an empty one.
    """

    thinking: str
    answer: str
    ended: bool
    thought: bool


def split_thinking(text: str, *, begun: bool = False, apart: str = "") -> Spoken:
    """The thinking and the answer of what a model generated.

    The answer is what follows the last `</think>`; a text without tags stays as it is.

    Args:
        begun: the chat template opened the thought, so that the text begins inside it. Where no
            `</think>` follows, nothing in the text says so.
        apart: thinking that a server has split off already (`reasoning`, `reasoning_content`).
    """
    inside, closed, answer = text.rpartition(ENDS)
    if BEGINS in answer or (begun and not closed):
        ended, inside, answer = False, text, ""
    else:
        answer = answer.lstrip() if closed else answer
        ended = bool(answer.strip()) or not apart
        answer = answer if ended else ""
    thoughts = (apart, inside.replace(BEGINS, "").replace(ENDS, ""))
    thinking = "\n\n".join(filter(None, (thought.strip() for thought in thoughts)))
    return Spoken(thinking, answer, ended, bool(apart or closed) or not ended)


def ends_alone(text: str) -> bool:
    """Whether a thought ends in `text` that does not begin in it: the prompt began it."""
    before, closed, _ = text.partition(ENDS)
    return bool(closed) and BEGINS not in before


def answer_begins(tokens: Sequence[str], spoken: Spoken) -> int | None:
    """The index of the token that the answer begins with; None where the tokens do not show it.

    Servers that split thoughts off may list the tokens of the thoughts nevertheless.

    Args:
        tokens: the texts of the generated tokens, which may end with more than the answer.
    """
    whole = "".join(tokens)
    begin = whole.rfind(ENDS)
    begin = 0 if begin < 0 else begin + len(ENDS)
    answer = spoken.answer.strip()
    if not answer or not whole[begin:].lstrip().startswith(answer):
        return None
    begin += len(whole[begin:]) - len(whole[begin:].lstrip())
    end = 0
    for index, token in enumerate(tokens):
        end += len(token)
        if end > begin:
            return index
    return None
