"""The multi-role debate set: sentences with a blank and three fillers, one of each kind.

Source: Kamruzzaman, Shovon and Kim 2024, "Investigating Subtler Biases in LLMs" (Findings of ACL
2024), whose dataset.csv is read as published; the paper builds its three options from it (4.1). The
fillers stand in fixed columns there, so they are shuffled before a model sees them (asking.py).

    dataset.csv[.gz] --> rows by bias type --> balanced sample --> Query --> BBQItem, asked like BBQ
"""

from __future__ import annotations

import csv
import io
import random
from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rldf_ray.errors import UserError
from rldf_ray.prompts import prompts_beside
from rldf_ray.sets.bbq.items import BBQItem, Key
from rldf_ray.storage.given_text import given_text
from rldf_ray.storage.json_lines import problems_of

render = prompts_beside(__file__)

PER_BIAS_TYPE = 2000
"""Queries of each bias type (paper 4.1: "about 2000")."""

FILES = ("dataset.csv", "dataset.csv.gz")
SOURCE = (
    "dataset.csv or dataset.csv.gz of Kamruzzaman et al. 2024 (MIT licence), published by its "
    "authors at https://github.com/kamruzzaman15/Identifying-Subtler-Biases-in-LLMs; copy the file "
    "into a folder and give that as --data DIR"
)

# As the file spells them; its rows on beauty and profession stand for profession (METHOD 4).
BIAS_TYPES = {
    "ageism": "age",
    "nationality": "nationality",
    "instituition": "institution",
    "beauty": "beauty",
    "beauty_profession": "profession",
}
BLANK = "BLANK"
SHOWN_BLANK = "____"

Kind = Literal["biased", "impartial", "anti_biased"]
KINDS: tuple[Kind, ...] = ("biased", "impartial", "anti_biased")
KIND_AT: tuple[Kind, ...] = ("anti_biased", "biased", "impartial")
"""What an option is, by its published index: the order of the file's columns."""


class MultiroleError(UserError, ValueError):
    """The set, or predictions for it, are wrong; the message says where, and what is needed."""


@dataclass(frozen=True, slots=True)
class Query:
    """A row of the file.

    Attributes:
        item: the row as a multiple-choice item. Its category is the bias type, its example_id the
            number of the row, from 1; its options stand as published (KIND_AT), `target_loc` is the
            biased one, `label` and `unknown` the impartial one; `question_index` is the same
            for rows with the same three options.
        gender: "male", "female" or "not_specified".
        direction: "type1" (from a group to a trait) or "type2" (from a trait to a group).
    """

    item: BBQItem
    gender: str
    direction: str

    @property
    def stratum(self) -> tuple[str, str, str]:
        return (self.direction, self.item.polarity, self.gender)


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiroleSet:
    """Queries and where they came from.

    Attributes:
        queries: by bias type, then in the file's order.
        rows: bias type and number of every row of the file, of the bias types that are read.
        available: rows of each bias type, without repetitions.
        repetitions: rows left out because the same sentence with the same options came before.
    """

    queries: tuple[Query, ...]
    source: str
    rows: frozenset[Key]
    available: dict[str, int]
    repetitions: int

    @property
    def items(self) -> tuple[BBQItem, ...]:
        return tuple(query.item for query in self.queries)


def load_multirole(
    directory: Path | str,
    per_bias_type: int | None = PER_BIAS_TYPE,
    seed: int = 0,
    bias_types: Sequence[str] | None = None,
    without: Container[Key] = (),
) -> MultiroleSet:
    """Read the published file, and draw a sample that is balanced over the file's own strata.

    Args:
        directory: holds dataset.csv or dataset.csv.gz.
        per_bias_type: most queries of each bias type, drawn in turn from the strata of direction,
            polarity and gender; None takes all. A bias type with fewer is taken whole.
        seed: of the sample; a bias type's sample does not depend on which others are read.
        bias_types: the project's names; None is all five.
        without: queries that are left out before the sample is drawn.

    Raises:
        MultiroleError: the file is not there, not as published or without a bias type that is
            asked for, or no query about one is left; the message names the row and the column, or
            says where users get the file.
        TextError: the file is no text.
    """
    path = _file(Path(directory))
    wanted = set(bias_types or BIAS_TYPES.values())
    if wanted - set(BIAS_TYPES.values()):
        allowed = ", ".join(BIAS_TYPES.values())
        raise MultiroleError(f"bias types {sorted(wanted)} asked for; allowed: {allowed}")
    groups: dict[str, list[Query]] = defaultdict(list)
    rows: set[Key] = set()
    seen: set[tuple[str, ...]] = set()
    repetitions = 0
    for query in _queries(path):
        item = query.item
        if item.category not in wanted:
            continue
        rows.add(item.key)
        text = (item.category, item.context, *item.options)
        if text in seen:
            repetitions += 1
            continue
        seen.add(text)
        groups[item.category].append(query)
    if lacking := sorted(set(bias_types or ()) - groups.keys()):
        raise MultiroleError(
            f"{path}: no row about {', '.join(lacking)}, which is asked for; leave it out"
        )
    for name, group in groups.items():
        groups[name] = [query for query in group if query.item.key not in without]
        if not groups[name]:
            raise MultiroleError(
                f"{path}: no query about {name} is left of {len(group)}, as all were declared as "
                "those that settings were chosen on (--dev-items); ask fewer of them there "
                "(--queries), or leave this set out here"
            )
    drawn = (_sample(groups[name], per_bias_type, f"{seed}/{name}") for name in sorted(groups))
    return MultiroleSet(
        queries=tuple(query for queries in drawn for query in queries),
        source=str(path),
        rows=frozenset(rows),
        available={name: len(queries) for name, queries in sorted(groups.items())},
        repetitions=repetitions,
    )


def _sample(queries: Sequence[Query], number: int | None, seed: str) -> list[Query]:
    """`number` queries, one after another from each stratum, in the file's order."""
    if number is None or number >= len(queries):
        return list(queries)
    strata: dict[tuple[str, str, str], list[Query]] = defaultdict(list)
    for query in queries:
        strata[query.stratum].append(query)
    for stratum, members in strata.items():
        random.Random(f"{seed}/{stratum}").shuffle(members)
    names = sorted(strata)
    longest = max(map(len, strata.values()))
    in_turn = [strata[n][i] for i in range(longest) for n in names if i < len(strata[n])]
    return sorted(in_turn[:number], key=lambda query: query.item.example_id)


# ---- the file


class _Row(BaseModel):
    """A row as published, its two misspellings included."""

    model_config = ConfigDict(str_strip_whitespace=True)

    bias_type: Literal["ageism", "nationality", "instituition", "beauty", "beauty_profession"]
    target_gender: Literal["male", "female", "not_spacified"]
    context: str
    anti_stereotype: Annotated[str, Field(min_length=1)]
    stereotype: Annotated[str, Field(min_length=1)]
    unrelated: Annotated[str, Field(min_length=1)]
    item_category: Literal["positive", "negative"]
    type_category: Literal["type1", "type2"]


def _file(directory: Path) -> Path:
    if directory.is_file() and directory.name.endswith((".csv", ".csv.gz")):
        return directory
    existing = [directory / name for name in FILES if (directory / name).is_file()]
    if not existing:
        what = "there is no such folder" if not directory.is_dir() else "it is not in that folder"
        raise MultiroleError(f"{directory}: {what}; needed: {SOURCE}")
    return existing[0]


def _queries(path: Path) -> Iterator[Query]:
    question = render("question")
    rows = csv.DictReader(io.StringIO(given_text(path), newline=""))
    missing = set(_Row.model_fields) - set(rows.fieldnames or ())
    if missing:
        raise MultiroleError(
            f"{path}: no column {', '.join(sorted(missing))}; found: {rows.fieldnames}; needed: "
            f"{SOURCE}"
        )
    number = 0
    try:
        for number, fields in enumerate(rows, start=1):
            yield _query(_row(fields, f"{path}, row {number}"), number, question)
    except csv.Error as error:
        raise MultiroleError(f"{path}, after row {number}: not CSV ({error})") from error
    if not number:
        raise MultiroleError(f"{path}: no row in it; needed: {SOURCE}")


def _row(fields: dict[str, str], where: str) -> _Row:
    try:
        row = _Row.model_validate(fields)
    except ValidationError as error:
        raise MultiroleError(f"{where}: {problems_of(error)}") from error
    if row.context.count(BLANK) != 1:
        raise MultiroleError(f"{where}: context is {row.context!r}; allowed: one {BLANK} in it")
    fillers = [text.lower() for text in (row.anti_stereotype, row.stereotype, row.unrelated)]
    if len(set(fillers)) < len(fillers):
        raise MultiroleError(f"{where}: the fillers are {fillers}; allowed: three different ones")
    return row


def _query(row: _Row, number: int, question: str) -> Query:
    context = row.context.replace(BLANK, SHOWN_BLANK)
    options = (row.anti_stereotype, row.stereotype, row.unrelated)
    item = BBQItem(
        category=BIAS_TYPES[row.bias_type],
        example_id=number,
        question_index="/".join(sorted(option.lower() for option in options)),
        polarity="neg" if row.item_category == "negative" else "nonneg",
        condition="ambig",
        context=context if context.endswith((".", "!", "?")) else f"{context}.",
        question=question,
        options=options,
        label=KIND_AT.index("impartial"),
        unknown=KIND_AT.index("impartial"),
        target_loc=KIND_AT.index("biased"),
    )
    gender = "not_specified" if row.target_gender == "not_spacified" else row.target_gender
    return Query(item, gender, row.type_category)
