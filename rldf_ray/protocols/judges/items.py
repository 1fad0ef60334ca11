"""Items of a study of judges: pairs of answers, read from a file of one JSON object a line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pyarrow as pa
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, field_validator

from rldf_ray.errors import UserError
from rldf_ray.protocols.item_sets import id_given_twice, sampled
from rldf_ray.protocols.judges.views import JudgedItem
from rldf_ray.storage.digest import digest
from rldf_ray.storage.home_path import home_path
from rldf_ray.storage.json_lines import parsed_lines, refuse

ITEM_SCHEMA = pa.schema(
    [
        pa.field("item_id", pa.string()),
        pa.field("question", pa.string()),
        pa.field("answer1", pa.string()),
        pa.field("answer2", pa.string()),
        pa.field("category", pa.string()),
        pa.field("group", pa.string()),
        pa.field("answer2_long", pa.string()),
        pa.field("label", pa.int8()),
    ]
)


class ItemsError(UserError):
    """A file holds no items; the message names it."""


class _GivenItem(BaseModel):
    """A line of the file; fields it does not know are left alone."""

    model_config = ConfigDict(extra="ignore", frozen=True, coerce_numbers_to_str=True)

    question: str = Field(min_length=1)
    answer1: str
    answer2: str
    id: str | None = None
    question_id: str | None = None
    category: str = ""
    label: Literal[1, 2] | None = None
    answer2_long: str | None = Field(
        None, validation_alias=AliasChoices("answer2_long", "answer2_longer")
    )

    @field_validator("label", mode="before")
    @classmethod
    def _number(cls, value: object) -> object:
        return int(value) if isinstance(value, str) and value.strip() in {"1", "2"} else value


def read_items(path: str, per_category: int | None, seed: int) -> list[JudgedItem]:
    """The items of a file, or a seeded sample of them, in the file's order.

    Args:
        per_category: this many of each category; None is all.

    Raises:
        ItemsError: the file is not there, or holds no items.
        LinesError: a line is not an item; the message says which, and what is wrong.
    """
    file = home_path(path)
    if not path or not file.is_file():
        raise ItemsError(
            f"settings.data={path!r}: no such file; allowed: a JSONL file with question, answer1 "
            "and answer2 on each line"
        )
    rows, problems = parsed_lines(file, _GivenItem)
    refuse(file, problems)
    if not rows:
        raise ItemsError(f"{file} holds no items")
    items = [_item(file, number, row) for number, row in rows.items()]
    twice = id_given_twice(items)
    if twice is not None:
        raise ItemsError(f"{file}: the id {twice!r} is given to two items")
    return (
        items
        if per_category is None
        else sampled(items, per_category, seed, lambda item: item.category)
    )


def _item(file: Path, number: int, given: _GivenItem) -> JudgedItem:
    return JudgedItem(
        item_id=given.id or f"{file.name.partition('.')[0]}-{number}",
        question=given.question,
        answer1=given.answer1,
        answer2=given.answer2,
        category=given.category,
        group=given.question_id or digest(given.question),
        answer2_long=given.answer2_long,
        label=given.label,
    )


def item_table(items: Sequence[JudgedItem]) -> pa.Table:
    """The items as `data/items.parquet` holds them."""
    columns = {name: [getattr(item, name) for item in items] for name in ITEM_SCHEMA.names}
    return pa.table(columns, schema=ITEM_SCHEMA)


def items_of(table: pa.Table) -> list[JudgedItem]:
    """The items of a table that `item_table` made."""
    return [JudgedItem(**row) for row in table.select(ITEM_SCHEMA.names).to_pylist()]
