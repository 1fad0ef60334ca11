"""Biases as views: what of an item a judge is shown, and how (the paper, section 3.4).

A view is a pure function of its item. All who take part in a system see the same one, and a
verdict, which is about labels, is read back through it as one about candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from rldf_ray.protocols.judges.verdict import Scores, Winner

Candidate = Literal[1, 2]
Place = Literal["system_head", "after_question", "end"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedItem:
    """A question with two answers.

    Attributes:
        group: what the items of one question share; intervals resample groups.
        answer2_long: answer 2 at greater length, with nothing added; None where there is none.
        label: the candidate that is better, where it is known.
    """

    item_id: str
    question: str
    answer1: str
    answer2: str
    category: str = ""
    group: str = ""
    answer2_long: str | None = None
    label: Candidate | None = None

    @property
    def address(self) -> str:
        return self.item_id

    def answer(self, candidate: Candidate) -> str:
        return self.answer1 if candidate == 1 else self.answer2


@dataclass(frozen=True, slots=True)
class Document:
    """An answer as it stands in a prompt: "Assistant" and its label, and whose it is."""

    label: Literal[1, 2]
    candidate: Candidate
    text: str


@dataclass(frozen=True, slots=True)
class Bandwagon:
    """A line that claims what most people hold.

    Attributes:
        label: of the answer that they are said to prefer.
    """

    percent: int
    label: Literal[1, 2]
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What of an item is shown.

    Attributes:
        documents: the two answers in the order in which they stand.
        reasons_first: everybody is asked to solve the question before comparing.
        rerun: 0, or the number of a rerun, which has other seeds and nothing else.
    """

    question: str
    documents: tuple[Document, Document]
    bandwagon: Bandwagon | None = None
    reasons_first: bool = False
    rerun: int = 0

    def candidate(self, winner: Winner) -> Winner:
        """Which candidate a verdict on labels is for; a tie stays one."""
        if winner == "tie":
            return "tie"
        return next(d.candidate for d in self.documents if d.label == winner)

    def by_candidate(self, scores: Scores) -> Scores:
        """Scores of labels as scores of candidates."""
        if self.candidate(1) == 1:
            return scores
        return Scores(scores.two, scores.one)


def clean(item: JudgedItem) -> View:
    """The item as it is."""
    documents = Document(1, 1, item.answer1), Document(2, 2, item.answer2)
    return View(question=item.question, documents=documents)


def rerun(view: View, number: int) -> View:
    """The same once more: what changes without any bias (a choice; the paper has none)."""
    return replace(view, rerun=number)


def swapped(view: View) -> View:
    """The answers change places, and labels stay where they are: slot 1 is "Assistant 1" again."""
    first, second = view.documents
    return replace(
        view,
        documents=(
            Document(first.label, second.candidate, second.text),
            Document(second.label, first.candidate, first.text),
        ),
    )


def swapped_with_labels(view: View) -> View:
    """The answers change places and take their labels with them (Figure 18, for PINE)."""
    first, second = view.documents
    return replace(view, documents=(second, first))


def lengthened(view: View, candidate: Candidate, long: str) -> View:
    """One candidate's answer is replaced by its long twin."""
    one, two = (
        Document(d.label, d.candidate, long) if d.candidate == candidate else d
        for d in view.documents
    )
    return replace(view, documents=(one, two))


def with_bandwagon(view: View, bandwagon: Bandwagon) -> View:
    return replace(view, bandwagon=bandwagon)


def reasoning_first(view: View) -> View:
    return replace(view, reasons_first=True)


Condition = Literal[
    "clean", "rerun", "position", "position_labels", "verbosity", "bandwagon", "cot"
]

BIASES: Mapping[Condition, Callable[[View], View]] = {
    "position": swapped,
    "position_labels": swapped_with_labels,
    "cot": reasoning_first,
}
"""Those that need nothing but the clean view; `judging.py` has the others."""
