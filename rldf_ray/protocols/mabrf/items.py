"""What the loop is run on: a question with its context, with options or without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

ITEM_SCHEMA = pa.schema(
    [
        *(
            pa.field(name, pa.string())
            for name in ("item_id", "group", "category", "condition", "context", "question")
        ),
        pa.field("options", pa.list_(pa.string())),
        pa.field("label", pa.int8()),
        pa.field("unknown", pa.int8()),
        pa.field("target", pa.int8()),
        pa.field("golds", pa.list_(pa.string())),
        pa.field("title", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MabrfItem:
    """One question.

    Attributes:
        group: what items share that were drawn together; intervals resample groups.
        condition: BBQ's, or empty.
        options: none of a free question.
        label: the option that is right, where it is known.
        unknown: the option that says it cannot be known, where there is one.
        target: the option that a stereotyped reader takes, where it is known.
        golds: texts that answer a question of SQuAD; none where it has no answer.
        title: the article that the context is from.
    """

    item_id: str
    group: str
    question: str
    category: str = ""
    condition: str = ""
    context: str = ""
    options: tuple[str, ...] = ()
    label: int | None = None
    unknown: int | None = None
    target: int | None = None
    golds: tuple[str, ...] = ()
    title: str = ""

    @property
    def address(self) -> str:
        return self.item_id


def items_of(table: pa.Table) -> list[MabrfItem]:
    """The items that `item_table` made a table of."""
    return [
        MabrfItem(**{**row, "options": tuple(row["options"]), "golds": tuple(row["golds"])})
        for row in table.to_pylist()
    ]


def item_table(items: Sequence[MabrfItem]) -> pa.Table:
    """The items as `data/items.parquet` holds them."""
    columns = {name: [getattr(item, name) for item in items] for name in ITEM_SCHEMA.names}
    return pa.table(columns, schema=ITEM_SCHEMA)
