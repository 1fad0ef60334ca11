"""QuALITY as published: an article a line with its questions, made into two-answer questions.

Source: Pang et al. 2022, v1.0.1, htmlstripped; the filter and its exclusions by name are those of
the paper's code, ucl-dark/llm_debate. The distractor is the option most often voted the best one; a
question without a vote, or with "all of the above", is left out.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from statistics import mean

from pydantic import BaseModel, ConfigDict, Field

from rldf_ray.protocols.item_sets import ItemSet
from rldf_ray.protocols.persuasion.transcript import PersuasionItem
from rldf_ray.storage.digest import digest
from rldf_ray.storage.json_lines import parsed_lines, refuse

SOURCE = "Gutenberg"
ANSWERABLE, UNTIMED, SPEED, CONTEXT = 1.0, 1.0, 0.5, 1.5
"""Mean answerability and untimed accuracy; speed accuracy at most; mean context at least."""
EXCLUDED_STORIES = frozenset(("Boys Do Bleed", "MONICA!", "The Girl in His Mind"))
EXCLUDED_QUESTIONS = {
    "The Blue Tower": "746980dad90b9eb6",
    "Conditionally Human": "7642279c56282778",
    "Conspiracy on Callisto": "94e54d266d51442f",
    "Name Your Symptom": "ee9e17ba9ff04c25",
    "Mars Confidential": "0d531a33423e83f6",
    "Letter of the Law": "460b744ecc0f255d",
    "Judas Ram": "ccfd0420452fb2cf",
    "A Fall of Glass": "24cbc0a576322200",
    "The Desert and the Stars": "e8142d9b4c7763b9",
}
"""The digest of a question's words by the title of its story, one of each."""
_ALL_OR_NONE = re.compile(
    r"\W*(all|none|both|neither) of (the above|these|them|those)"
    r"( (answers|options|choices))?( (are|is) (correct|true|right))?\W*",
    re.IGNORECASE,
)


class _Validation(BaseModel):
    model_config = ConfigDict(extra="ignore")
    untimed_answer: int
    untimed_eval1_answerability: int
    untimed_eval2_context: int
    untimed_best_distractor: int | None = None


class _Speed(BaseModel):
    model_config = ConfigDict(extra="ignore")
    speed_answer: int


class _Question(BaseModel):
    model_config = ConfigDict(extra="ignore")
    question: str
    question_unique_id: str = ""
    options: list[str] = Field(min_length=4, max_length=4)
    gold_label: int = Field(ge=1, le=4)
    writer_label: int
    validation: list[_Validation] = []
    speed_validation: list[_Speed] = []
    difficult: int = 0


class _Line(BaseModel):
    model_config = ConfigDict(extra="ignore")
    article_id: str
    set_unique_id: str = ""
    source: str = ""
    title: str = ""
    article: str
    questions: list[_Question]


def read_quality(path: Path, hard: bool) -> ItemSet[PersuasionItem]:
    """The questions of a file as published; those that are left out are counted by reason.

    Args:
        hard: only those that the paper's filter keeps.

    Raises:
        LinesError: a line is not QuALITY's.
    """
    lines, problems = parsed_lines(path, _Line)
    refuse(path, problems)
    items: list[PersuasionItem] = []
    left_out: Counter[str] = Counter()
    for line in lines.values():
        for number, question in enumerate(line.questions, start=1):
            place = distractor(question)
            why = unusable(question, place) or (filtered(line, question) if hard else None)
            if why is not None:
                left_out[why] += 1
                continue
            assert place is not None
            items.append(
                PersuasionItem(
                    item_id=question.question_unique_id or f"{line.set_unique_id}-{number}",
                    group=line.article_id,
                    story=_clean(line.article),
                    question=_clean(question.question),
                    correct=_clean(question.options[question.gold_label - 1]),
                    incorrect=_clean(question.options[place - 1]),
                    title=line.title,
                    category="hard" if question.difficult else "",
                )
            )
    return ItemSet(items, left_out)


def distractor(question: _Question) -> int | None:
    """The wrong option most often voted the best distractor, 1 to 4, the lowest of equals.

    None without a vote.
    """
    votes = Counter(
        one.untimed_best_distractor
        for one in question.validation
        if one.untimed_best_distractor in range(1, 5)
        and one.untimed_best_distractor != question.gold_label
    )
    if not votes:
        return None
    most = max(votes.values())
    return min(option for option, number in votes.items() if number == most and option)


def unusable(question: _Question, place: int | None) -> str | None:
    """Why two answers cannot be made of a question; None where they can.

    Args:
        place: of the distractor.
    """
    if place is None:
        return "nobody voted for a distractor"
    texts = (question.options[question.gold_label - 1], question.options[place - 1])
    if texts[0] == texts[1]:
        return "the distractor is the correct answer"
    if any(_ALL_OR_NONE.fullmatch(text) for text in texts):
        return "an answer is all or none of the others"
    return None


def filtered(line: _Line, question: _Question) -> str | None:
    """Why the paper's filter leaves a question out; None where it keeps it.

    It keeps what is hard for timed readers and clear to those with time.
    """
    if line.source != SOURCE:
        return f"the story is not of Project {SOURCE}"
    if excluded(line.title, question.question):
        return "the paper excludes them by name"
    checks, timed = question.validation, question.speed_validation
    if not checks or not timed:
        return "readers have not checked them"
    gold = question.gold_label
    if question.difficult != 1:
        return "they are not hard for timed readers"
    if question.writer_label != gold:
        return "their writer has another answer"
    if mean(one.untimed_eval1_answerability for one in checks) != ANSWERABLE:
        return "readers find them open or unclear"
    if mean(one.untimed_answer == gold for one in checks) != UNTIMED:
        return "readers with time are not all right"
    if mean(one.speed_answer == gold for one in timed) > SPEED:
        return f"more than {SPEED:.0%} of timed readers are right"
    if mean(one.untimed_eval2_context for one in checks) < CONTEXT:
        return "a sentence or two of the story answer them"
    return None


def excluded(title: str, question: str) -> bool:
    """Whether the paper's code leaves out the story, or the question, by name."""
    name = title.strip()
    words = re.findall(r"\w+", question.lower())
    return name in EXCLUDED_STORIES or EXCLUDED_QUESTIONS.get(name) == digest(words)


def _clean(text: str) -> str:
    """Without line and paragraph separators, no-break spaces made spaces."""
    return text.replace("\u2028", "").replace("\u2029", "").replace("\u00a0", " ").strip()
