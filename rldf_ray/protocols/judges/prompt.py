"""What each seat is asked: question, two answers, then everything that differs.

    prefix: question | documents: both answers | suffix: task, role, what others said, steps

The three are kept apart, so that a position-invariant model can take the answers as a set; all
other models read them joined. What all requests about a view share stands first. What a prompt
asks for is what those of the paper's appendix F do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rldf_ray.prompts import prompts_beside
from rldf_ray.protocols.judges.views import Bandwagon, View

render = prompts_beside(__file__)

Seat = Literal["judge", "critic", "select", "plain"]


@dataclass(frozen=True, slots=True)
class Segments:
    """A prompt in parts, each with the blank space that ends it."""

    prefix: str
    documents: tuple[str, ...]
    suffix: str

    @property
    def text(self) -> str:
        return "".join((self.prefix, *self.documents, self.suffix))


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What somebody said, as others are shown it: "Round 1: Judge", "Referee A"."""

    speaker: str
    text: str


def segments(
    seat: Seat,
    view: View,
    history: Sequence[Evaluation] = (),
    *,
    names: Sequence[str] = (),
    history_is: str = "evaluations",
    json: bool = False,
) -> Segments:
    """The prompt of a seat about a view.

    Args:
        history: what this seat may see of what was said, in order.
        names: of the referees that `select` chooses among.
        history_is: what a judge's history is called.
        json: the verdict is to be JSON.
    """
    crowd = view.bandwagon
    suffix = render(
        seat,
        history=history,
        history_is=history_is,
        names=names,
        json=json,
        crowd=_line(crowd, "system_head"),
        reasons_first=_reasons_first(seat) if view.reasons_first else None,
    )
    last = _line(crowd, "end")
    return Segments(
        prefix=_block(
            render("question", question=view.question, crowd=_line(crowd, "after_question"))
        ),
        documents=tuple(_block(render("document", document=d)) for d in view.documents),
        suffix=f"{suffix}\n\n{last}" if last else suffix,
    )


def _block(text: str) -> str:
    return f"{text}\n\n"


def _line(crowd: Bandwagon | None, place: str) -> str | None:
    if crowd is None or crowd.place != place:
        return None
    return render("crowd", percent=crowd.percent, label=crowd.label)


def _reasons_first(seat: Seat) -> str:
    return render("reasons_first", of="referees" if seat == "select" else "answers")
