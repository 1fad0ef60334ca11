"""Free answers to held-out prompts, as a run or any other program left them, ready to be judged.

A run's eval/answers.parquet, or a .parquet or .jsonl file with a row an answer:

    {"method": "RLDF", "prompt_id": "age-1f", "bias_type": "age", "prompt": "...", "answer": "..."}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from rldf_ray.dataset.preference_data import topic_of_prompt
from rldf_ray.errors import UserError
from rldf_ray.storage.digest import digest
from rldf_ray.storage.json_lines import parsed_lines, problems_of, refuse
from rldf_ray.storage.left_over import left_over
from rldf_ray.storage.parquet import given_table

RUN_ANSWERS = "eval/answers.parquet"
COMPARED_ANSWERS = "compare/free_answers.parquet"
"""Where a run and a comparison leave their answers, below their own folders."""


class AnswersError(UserError):
    """Answers cannot be judged as given; the message names the file, the row and the field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeAnswer:
    """One answer.

    Attributes:
        method: who or what wrote it ("policy", "RLDF"); never shown to a judge.
        repeat, seed: of the method, where it was run several times.
        prompt: the question as the method was asked it.
    """

    method: str
    prompt_id: str
    bias_type: str
    prompt: str
    answer: str
    repeat: int = 0
    seed: int = 0

    @property
    def topic_id(self) -> str:
        """The topic asked about; a run asks about one with its clue and without."""
        return topic_of_prompt(self.prompt_id)

    @property
    def answer_id(self) -> str:
        """Names the question and the answer's words: equal answers are judged once."""
        return digest(self.prompt, self.answer)


class _Row(BaseModel):
    """A row; other columns (a reward, token counts) are passed over."""

    model_config = ConfigDict(extra="ignore", strict=True)

    method: str = Field(min_length=1, validation_alias=AliasChoices("method", "model"))
    prompt_id: str
    bias_type: str
    prompt: str = Field(min_length=1)
    answer: str
    repeat: int = Field(0, ge=0)
    seed: int = 0


def read_answers(source: Path) -> list[FreeAnswer]:
    """The answers of a run's folder, or of a .parquet or .jsonl file, in their order.

    Raises:
        AnswersError: no such file, a run whose evaluation has not finished, a wrong row, no row, or
            two answers of one method and repeat to one prompt.
        LinesError, ParquetError: wrong lines, all of them named, or no Parquet file.
    """
    path = source / RUN_ANSWERS if source.is_dir() else source
    if not path.is_file():
        hint = " (a run folder whose eval stage has finished has it)" if source.is_dir() else ""
        raise AnswersError(
            f"{path} does not exist{hint}; needed: a run's folder, or a .parquet or .jsonl file "
            "with method, prompt_id, bias_type, prompt and answer in each row"
        )
    if source.is_dir() and (why := left_over(source, RUN_ANSWERS)):
        raise AnswersError(f"{why}: `rldf eval {source}` first; or name the file for what it holds")
    rows = _parquet_rows(path) if path.suffix == ".parquet" else _line_rows(path)
    answers = [FreeAnswer(**row.model_dump()) for row in rows]
    if not answers:
        raise AnswersError(f"{path}: no row in it")
    counts = Counter((a.method, a.repeat, a.prompt_id) for a in answers)
    (key, number), *_ = counts.most_common(1)
    if number > 1:
        raise AnswersError(
            f"{path}: {number} rows have method {key[0]!r}, repeat {key[1]} and prompt_id "
            f"{key[2]!r}; allowed: one answer of a method to a prompt in a repeat"
        )
    return answers


def sampled(answers: Sequence[FreeAnswer], number: int | None, seed: int) -> list[FreeAnswer]:
    """The answers to `number` prompts, drawn by seed: the same prompts for every method."""
    prompts = sorted({a.prompt_id for a in answers}, key=lambda prompt: digest(seed, prompt))
    chosen = set(prompts if number is None else prompts[:number])
    return [answer for answer in answers if answer.prompt_id in chosen]


def _parquet_rows(path: Path) -> list[_Row]:
    return [
        _row(fields, f"{path}, row {number}")
        for number, fields in enumerate(given_table(path).to_pylist(), start=1)
    ]


def _row(fields: Mapping[str, Any], where: str) -> _Row:
    try:
        return _Row.model_validate(fields)
    except ValidationError as error:
        raise AnswersError(f"{where}: {problems_of(error)}") from error


def _line_rows(path: Path) -> list[_Row]:
    rows, problems = parsed_lines(path, _Row)
    refuse(path, problems)
    return list(rows.values())
