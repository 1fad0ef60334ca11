"""Prompts are text files, bias types are data files; this reads them.

`*.txt` are Jinja templates, one a role. `bias_types/NAME.yaml` holds a bias type's identities and
seed topics, `labelled_statements/NAME.jsonl` statements of which we know whether they are biased;
`debate_examples.yaml` has statements that debaters may be shown.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal

import jinja2
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rldf_ray.json_lines import parsed_lines, refuse
from rldf_ray.records import Conclusion, Context, Identity
from rldf_ray.storage import digest

FOLDER = Path(str(resources.files("rldf_ray.prompts")))

_templates = jinja2.Environment(
    loader=jinja2.FileSystemLoader(FOLDER),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=False,
)


class BiasTypeError(ValueError):
    """A bias type's file is missing or wrong; the message names the file and the field."""


class SeedJudgement(BaseModel):
    """A judgement topic as a bias type's file lists it (METHOD 1)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    scene: str
    clue: str
    question: str
    groups: tuple[str, str]
    answer: str


class BiasType(BaseModel):
    """One bias type: who debates, and the seed topics."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    title: str
    about: str
    identities: tuple[Identity, ...] = Field(min_length=5)
    opinion_topics: tuple[str, ...]
    judgement_topics: tuple[SeedJudgement, ...]


class DebateExample(BaseModel):
    """A statement on a topic of no bias type, with the mark it deserves."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    identity: str
    topic: str
    text: str
    mark: float = Field(ge=0, le=10)


class LabelledStatement(BaseModel):
    """A statement known to be biased (label 1) or fair (label 0) in its context.

    `conclusion` is what a scene lets one conclude; None where the context is none.
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

    @property
    def judged_in(self) -> Context:
        return Context(self.context, self.conclusion)


def render(template: str, **values: object) -> str:
    """The prompt `template` (a file name without .txt), filled in, without outer blank space."""
    return _templates.get_template(f"{template}.txt").render(**values).strip()


@cache
def bias_type(name: str) -> BiasType:
    """A bias type by name, or by the path of a YAML file; its `name` is what the plan calls it.

    Raises:
        BiasTypeError: no such bias type, or its file is wrong.
    """
    path = FOLDER / "bias_types" / f"{name}.yaml"
    if not path.exists():
        path = Path(name)
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in (FOLDER / "bias_types").glob("*.yaml")))
        raise BiasTypeError(f"bias type {name!r}: neither one of {known} nor a YAML file")
    try:
        found = BiasType.model_validate(yaml.safe_load(path.read_text()))
    except (ValidationError, yaml.YAMLError) as error:
        raise BiasTypeError(f"bias type file {path}: {error}") from error
    return found.model_copy(update={"name": name})


@cache
def debate_examples(number: int) -> tuple[DebateExample, ...]:
    """The first `number` statements of debate_examples.yaml; fewer where it has fewer."""
    found = yaml.safe_load((FOLDER / "debate_examples.yaml").read_text())
    return tuple(DebateExample.model_validate(example) for example in found[:number])


def labelled_statements(name: str) -> list[LabelledStatement]:
    """The labelled statements of a bias type; none if nobody has written any.

    Raises:
        LinesError: a line of its file is not one.
    """
    path = FOLDER / "labelled_statements" / f"{name}.jsonl"
    if not path.exists():
        return []
    rows, problems = parsed_lines(path, LabelledStatement)
    refuse(path, problems)
    return list(rows.values())


class StatementsError(ValueError):
    """A file holds no labelled statements; the message names it."""


class _GivenStatement(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    text: str = Field(min_length=1)
    label: Literal[0, 1]
    context: str = ""


def given_statements(path: Path) -> list[LabelledStatement]:
    """Anyone's labelled statements: a JSON object a line with text, label, optionally context.

    Raises:
        LinesError: a line is not such an object.
        StatementsError: there is none.
        OSError: the file cannot be read.
    """
    rows, problems = parsed_lines(path, _GivenStatement)
    refuse(path, problems)
    found = []
    for number, given in rows.items():
        place = {"topic": path.stem, "family": path.stem, "pair": f"{path.stem}-{number}"}
        kind = {"bias_type": path.stem, "form": "given", "split": "held_out"}
        found.append(LabelledStatement.model_validate(given.model_dump() | place | kind))
    if not found:
        raise StatementsError(f"{path} holds no statements")
    return found


def held_out_statements(name: str, pairs: int | None, seed: int) -> list[LabelledStatement]:
    """A bias type's labelled statements that no referee is fitted to.

    Args:
        pairs: this many pairs, both sides of each, a seeded sample; None is all of them.
    """
    found = [s for s in labelled_statements(name) if s.split == "held_out"]
    ordered = sorted({s.pair for s in found}, key=lambda pair: digest(seed, "audit", pair))
    chosen = set(ordered[:pairs])
    return [s for s in found if s.pair in chosen]
