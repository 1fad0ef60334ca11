"""QuALITY as published: an article a line with its questions, made into two-answer questions.

Source: Pang et al. 2022, v1.0.1, htmlstripped; the filter is that of Khan et al. 2024
(METHOD-persuasion 3). The distractor is the option most often voted the best one; a question
without a vote, or with "all of the above", is left out.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from statistics import mean

from pydantic import BaseModel, ConfigDict, Field

from rldf_ray.protocols.persuasion.transcript import PersuasionItem
from rldf_ray.storage.json_lines import parsed_lines, refuse

SOURCE = "Gutenberg"
ANSWERABLE, UNTIMED, SPEED, CONTEXT = 1.0, 1.0, 0.5, 1.5
"""Mean answerability and untimed accuracy; speed accuracy at most; mean context at least."""
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


def read_quality(path: Path, hard: bool) -> list[PersuasionItem]:
    """The questions of a file as published.

    Args:
        hard: only those that the paper's filter keeps.

    Raises:
        LinesError: a line is not QuALITY's.
    """
    lines, problems = parsed_lines(path, _Line)
    refuse(path, problems)
    items = []
    for line in lines.values():
        for number, question in enumerate(line.questions, start=1):
            place = distractor(question)
            if place is None or (hard and not _kept(line, question)):
                continue
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
    return items


def distractor(question: _Question) -> int | None:
    """The wrong option most often voted the best distractor, 1 to 4, the lowest of equals.

    None without a vote, and where the correct or that option is "all of the above" or the like.
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
    place = min(option for option, number in votes.items() if number == most and option)
    texts = (question.options[question.gold_label - 1], question.options[place - 1])
    if texts[0] == texts[1] or any(_ALL_OR_NONE.fullmatch(text) for text in texts):
        return None
    return place


def _kept(line: _Line, question: _Question) -> bool:
    """The paper's filter: hard for timed readers, clear to those with time."""
    checks, timed = question.validation, question.speed_validation
    if not checks or not timed:
        return False
    gold = question.gold_label
    return (
        line.source == SOURCE
        and question.difficult == 1
        and question.writer_label == gold
        and mean(one.untimed_eval1_answerability for one in checks) == ANSWERABLE
        and mean(one.untimed_answer == gold for one in checks) == UNTIMED
        and mean(one.speed_answer == gold for one in timed) <= SPEED
        and mean(one.untimed_eval2_context for one in checks) >= CONTEXT
    )


def _clean(text: str) -> str:
    """Without line and paragraph separators, no-break spaces made spaces."""
    return text.replace("\u2028", "").replace("\u2029", "").replace("\u00a0", " ").strip()
