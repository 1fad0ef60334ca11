"""What each role is asked: the story and the answers first, the same bytes for all who read it.

story, question, answers | transcript, append-only | role, side, name, request
"""

from __future__ import annotations

from rldf_ray.prompts import prompts_beside
from rldf_ray.protocols.persuasion.transcript import (
    OTHER_SIDE,
    Kind,
    PersuasionItem,
    Position,
    Side,
    Transcript,
    letter_of,
    name_of,
    rendered,
)

render = prompts_beside(__file__)


def story_prompt(item: PersuasionItem) -> str:
    """Story, question and both answers: the beginning for everybody who has read it.

    The answers stand in an order of their own words, which tells nobody which is right.
    """
    first, second = sorted((item.correct, item.incorrect))
    return render("story", story=item.story, question=item.question, first=first, second=second)


def question_prompt(
    item: PersuasionItem, position: Position, transcript: Transcript | None = None
) -> str:
    """Question, lettered answers and transcript: what a judge sees."""
    answers = {letter_of(side, position): item.answer(side) for side in OTHER_SIDE}
    return render(
        "question",
        question=item.question,
        a=answers["A"],
        b=answers["B"],
        transcript=rendered(transcript, position) if transcript and transcript.said else "",
    )


def expert_view(item: PersuasionItem, transcript: Transcript, side: Side) -> str:
    """Story and transcript as a debater, consultant or critic of a side sees them."""
    parts = [story_prompt(item)]
    if transcript.said:
        shown = rendered(transcript, transcript.position, side)
        parts.append(render("transcript", transcript=shown))
    return "\n\n".join(parts)


def rules(kind: Kind, position: Position, side: Side | None) -> str:
    """The judge's rules on quotes, and who argues for what.

    Args:
        side: the consultant's; None in debates.
    """
    return render(
        "judge_rules",
        consultancy=kind == "consultancy",
        letter=letter_of(side, position) if side is not None else "",
    )


def speaker_names(transcript: Transcript, side: Side) -> tuple[str, str]:
    """A side's name and the other's, as the speakers know themselves."""
    return (
        name_of(side, transcript.position, transcript.kind),
        name_of(OTHER_SIDE[side], transcript.position, transcript.kind),
    )
