"""SQuAD v2 as published: a JSON file of articles, paragraphs and questions."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from rldf_ray.errors import UserError
from rldf_ray.protocols.mabrf.items import MabrfItem
from rldf_ray.storage.given_text import given_text
from rldf_ray.storage.json_lines import problems_of


class SquadError(UserError):
    """A file is not SQuAD v2; the message says where it is not."""


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore")
    text: str


class _Question(BaseModel):
    model_config = ConfigDict(extra="ignore")
    id: str
    question: str
    answers: list[_Answer] = []
    is_impossible: bool = False


class _Paragraph(BaseModel):
    model_config = ConfigDict(extra="ignore")
    context: str
    qas: list[_Question]


class _Article(BaseModel):
    model_config = ConfigDict(extra="ignore")
    title: str
    paragraphs: list[_Paragraph]


class _File(BaseModel):
    model_config = ConfigDict(extra="ignore")
    data: list[_Article]


def read_squad(path: Path) -> list[MabrfItem]:
    """The questions of a file.

    Raises:
        OSError, TextError: the file cannot be read, or is no text.
        SquadError: it is no SQuAD v2, or has questions of which nobody knows an answer.
    """
    try:
        articles = _File.model_validate_json(given_text(path)).data
    except ValidationError as error:
        raise SquadError(f"{path} is no file of SQuAD v2: {problems_of(error)[:300]}") from None
    questions = [
        (article.title, paragraph.context, question)
        for article in articles
        for paragraph in article.paragraphs
        for question in paragraph.qas
    ]
    untold = [one.id for _, _, one in questions if not (one.answers or one.is_impossible)]
    if untold:
        raise SquadError(
            f"{path}: {len(untold)} of {len(questions)} questions have no `answers`, and are not "
            f"marked as having none, the first of them {untold[0]!r}; allowed: answers, or "
            "is_impossible: true. Take a file with its answers (those of a test set are taken "
            "out), or leave these questions out"
        )
    return [
        MabrfItem(
            item_id=question.id,
            group=title,
            category="answerable" if _golds(question) else "unanswerable",
            context=context,
            question=question.question,
            golds=_golds(question),
            title=title,
        )
        for title, context, question in questions
    ]


def _golds(question: _Question) -> tuple[str, ...]:
    if question.is_impossible:
        return ()
    return tuple(dict.fromkeys(answer.text for answer in question.answers))
