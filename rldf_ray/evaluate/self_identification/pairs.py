"""Question-answer pairs that a model is shown: our own writing, a file's, or a run's answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rldf_ray.errors import UserError
from rldf_ray.storage.digest import digest
from rldf_ray.storage.json_lines import parsed_lines, problems_of, refuse
from rldf_ray.storage.left_over import left_over
from rldf_ray.storage.parquet import given_table

OWN_WRITING = Path(__file__).parent / "own_writing.jsonl"
ANSWERS = "eval/answers.parquet"


class QuestionAnswersError(UserError):
    """The pairs cannot be read; the message names file, line or column, and what is allowed."""


class QuestionAnswer(BaseModel):
    """A question and the answer somebody gave.

    Attributes:
        biases: how many biases its writer put into the answer; None where nobody has counted.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    id: str = Field(min_length=1)
    question: str = Field(min_length=1)
    answer: str = Field(min_length=1)
    biases: int | None = Field(default=None, ge=0)


def question_answers(
    source: Path = OWN_WRITING, model: str = "policy", number: int | None = None, seed: int = 0
) -> list[QuestionAnswer]:
    """The pairs of `source`, in its order.

    Args:
        source: a jsonl file (question, answer, maybe id and biases), a run's folder, or its
            eval/answers.parquet.
        model: whose answers to take from a run.
        number: this many of them, a seeded sample; None is all.

    Raises:
        LinesError, ParquetError: a line is no pair, or the file is no run's answers.
        QuestionAnswersError: two have the same id, there are none, or none of the model; or the
            run's evaluation has not finished.
        OSError: the file cannot be read.
    """
    path = source / ANSWERS if source.is_dir() else source
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist: give a jsonl file or an evaluated run")
    if source.is_dir() and (why := left_over(source, ANSWERS)):
        raise QuestionAnswersError(
            f"{why}: `rldf eval {source}` first; or name the file for what it holds"
        )
    pairs = list(_of_run(path, model) if path.suffix == ".parquet" else _of_lines(path))
    if not pairs:
        raise QuestionAnswersError(f"{path} holds no question-answer pairs")
    _check_ids(pairs, path)
    if number is None:
        return pairs
    chosen = set(sorted((pair.id for pair in pairs), key=lambda name: digest(seed, name))[:number])
    return [pair for pair in pairs if pair.id in chosen]


def _of_lines(path: Path) -> Iterator[QuestionAnswer]:
    rows, problems = parsed_lines(path, _Given)
    refuse(path, problems)
    for number, given in rows.items():
        yield QuestionAnswer.model_validate(
            {"id": str(number), **given.model_dump(exclude_none=True)}
        )


class _Given(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, str_strip_whitespace=True)

    question: str = Field(min_length=1)
    answer: str = Field(min_length=1)
    id: str | None = Field(default=None, min_length=1)
    biases: int | None = Field(default=None, ge=0)


def _of_run(path: Path, model: str) -> Iterator[QuestionAnswer]:
    """A model's answers to held-out prompts; an empty answer is nothing to be shown."""
    rows = given_table(path, ("model", "prompt_id", "prompt", "answer")).to_pylist()
    names = list(dict.fromkeys(row["model"] for row in rows))
    if model not in names:
        raise QuestionAnswersError(
            f"{path} has no answers of {model!r}; allowed: {', '.join(names) or 'none'}"
        )
    for row in rows:
        if row["model"] == model and (row["answer"] or "").strip():
            pair = {"id": row["prompt_id"], "question": row["prompt"], "answer": row["answer"]}
            try:
                yield QuestionAnswer.model_validate(pair)
            except ValidationError as error:
                raise QuestionAnswersError(f"{path}: {problems_of(error)}") from error


def _check_ids(pairs: Sequence[QuestionAnswer], path: Path) -> None:
    seen: set[str] = set()
    for pair in pairs:
        if pair.id in seen:
            raise QuestionAnswersError(f"{path}: the id {pair.id!r} stands there twice")
        seen.add(pair.id)
