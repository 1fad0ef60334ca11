"""Statements of which we know whether they are biased: ours, a file a bias type, or anyone's."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from rldf_ray.errors import UserError
from rldf_ray.records import Conclusion, Context, TopicKind
from rldf_ray.storage.digest import digest
from rldf_ray.storage.json_lines import parsed_lines, refuse

LABELLED = Path(__file__).parent / "labelled"


class LabelledStatement(BaseModel):
    """A statement known to be biased (label 1) or fair (label 0) in its context.

    Attributes:
        conclusion: what a scene lets one conclude; None where the context is none.
        abstains: it answers a scene with nobody, which is no bias, whatever the scene tells.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str
    label: Literal[0, 1]
    bias_type: str
    context: str
    topic: str
    family: str
    form: str
    pair: str
    split: Literal["fit", "held_out"]
    conclusion: Conclusion | None = None
    abstains: bool = False

    def as_answer(self) -> LabelledStatement:
        """With the label of a referee that checks: 0 is what can be concluded, 1 all else."""
        return self.model_copy(update={"label": 1}) if self._abstains_in_vain else self

    @property
    def side(self) -> Literal[0, 1]:
        """Which of its pair it is, whatever the standard of its label: 0 the fair one."""
        return 0 if self._abstains_in_vain else self.label

    @property
    def _abstains_in_vain(self) -> bool:
        tells = self.conclusion is not None and self.conclusion.answer is not None
        return self.abstains and tells

    @property
    def kind(self) -> TopicKind:
        """What it is about: an answer to a scene, or an opinion."""
        return "judgement" if self.form == "judgement" else "opinion"

    @property
    def cluster(self) -> str:
        """What it was drawn with, as an interval resamples it.

        An opinion's topic; a scene, told with its clue or without; of given statements a context.
        """
        if self.form == "given":
            return self.context or self.pair
        return self.topic if self.conclusion is None else f"{self.topic}/{self.conclusion.question}"

    @property
    def judged_in(self) -> Context:
        return Context(self.context, self.conclusion)


def labelled_statements(name: str) -> list[LabelledStatement]:
    """The labelled statements of a bias type; none if nobody has written any.

    Raises:
        LinesError: a line of its file is not one.
    """
    path = LABELLED / f"{name}.jsonl"
    if not path.exists():
        return []
    rows, problems = parsed_lines(path, LabelledStatement)
    refuse(path, problems)
    return list(rows.values())


class StatementsError(UserError):
    """A file holds no labelled statements; the message names it."""


class _GivenStatement(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    text: str = Field(min_length=1)
    label: Literal[0, 1]
    context: str = ""

    @field_validator("text")
    @classmethod
    def _has_a_word(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("it is blank")
        return value

    @field_validator("label", mode="before")
    @classmethod
    def _is_a_number(cls, value: object) -> object:
        # Python takes true for 1.
        if isinstance(value, bool):
            raise ValueError("it is 1 (biased) or 0 (fair)")
        return value


def given_statements(path: Path) -> list[LabelledStatement]:
    """Anyone's labelled statements: a JSON object a line with text, label, optionally context.

    Raises:
        LinesError: a line is not such an object, or has the text of an earlier one in the same
            context: counted twice it would narrow every interval.
        StatementsError: there is none.
        OSError: the file cannot be read.
    """
    rows, problems = parsed_lines(path, _GivenStatement)
    refuse(path, problems | _repeats(rows))
    statements = []
    for number, given in rows.items():
        place = {"topic": path.stem, "family": path.stem, "pair": f"{path.stem}-{number}"}
        kind = {"bias_type": path.stem, "form": "given", "split": "held_out"}
        statements.append(LabelledStatement.model_validate(given.model_dump() | place | kind))
    if not statements:
        raise StatementsError(f"{path} holds no statements")
    return statements


def _repeats(rows: Mapping[int, _GivenStatement]) -> dict[int, str]:
    """What is wrong with the lines that have another's text in the same context, by number."""
    first: dict[tuple[str, str], int] = {}
    problems: dict[int, str] = {}
    for number, row in rows.items():
        earlier = first.setdefault((row.context.strip(), row.text.strip()), number)
        if earlier != number:
            same = row.label == rows[earlier].label
            problems[number] = (
                f"repeats line {earlier}; leave it out"
                if same
                else f"label {row.label}, and line {earlier} has the same text and context with "
                f"label {rows[earlier].label}; keep one of them"
            )
    return problems


def held_out_statements(
    name: str,
    pairs: int | None,
    seed: int,
    kinds: Collection[TopicKind] = ("opinion", "judgement"),
) -> list[LabelledStatement]:
    """A bias type's labelled statements of some kinds that no referee is fitted to.

    Args:
        pairs: this many pairs, both sides of each, a seeded sample; None is all of them.
    """
    labelled = labelled_statements(name)
    held_out = [s for s in labelled if s.split == "held_out" and s.kind in kinds]
    ordered = sorted({s.pair for s in held_out}, key=lambda pair: digest(seed, "audit", pair))
    chosen = set(ordered[:pairs])
    return [s for s in held_out if s.pair in chosen]
