"""SQuAD v2 as published: a JSON file of articles, paragraphs and questions."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from rldf_ray.errors import UserError
from rldf_ray.protocols.item_sets import sampled
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


def read_squad(path: Path, per_article: int | None, seed: int) -> list[MabrfItem]:
    """The questions of a file, or a seeded sample of each article's.

    Raises:
        OSError, TextError: the file cannot be read, or is no text.
        SquadError: it is no SQuAD v2.
    """
    try:
        articles = _File.model_validate_json(given_text(path)).data
    except ValidationError as error:
        raise SquadError(f"{path} is no file of SQuAD v2: {problems_of(error)[:300]}") from None
    items = [
        MabrfItem(
            item_id=question.id,
            group=article.title,
            category="answerable" if _golds(question) else "unanswerable",
            context=paragraph.context,
            question=question.question,
            golds=_golds(question),
            title=article.title,
        )
        for article in articles
        for paragraph in article.paragraphs
        for question in paragraph.qas
    ]
    return (
        items if per_article is None else sampled(items, per_article, seed, lambda item: item.group)
    )


def _golds(question: _Question) -> tuple[str, ...]:
    if question.is_impossible:
        return ()
    return tuple(dict.fromkeys(answer.text for answer in question.answers))
