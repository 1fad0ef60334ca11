"""Texts with the labels they came with; what a study of EVINCE disputes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

_SENTENCE_END = re.compile(r"(?<=[.!?\"”])\s+|(?<=[\u3002\uff01\uff1f])|\n+")

ITEM_SCHEMA = pa.schema(
    [
        *(
            pa.field(name, pa.string())
            for name in (
                "item_id",
                "text_id",
                "target",
                "text",
                "title",
                "source",
                "category",
                "link",
            )
        ),
        pa.field("given", pa.map_(pa.string(), pa.string())),
        pa.field("truncated", pa.bool_()),
    ]
)
VOTES = pa.field("votes", pa.map_(pa.string(), pa.map_(pa.string(), pa.int32())))
"""A column of data in which groups of people rated a text; other data have none."""
LABELS = pa.field("labels", pa.list_(pa.string()))
"""A column of texts whose labels have names of their own; other data have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvinceItem:
    """A text, and what its label is about.

    Attributes:
        text_id: of the text, which intervals resample; the items of two targets share it.
        given: the labels it came with, by who gave them, in order.
        votes: of groups of people, by group: how many of it gave which label. A group's label in
            `given` is that of most; a group that is split evenly has none.
        truncated: the text is cut to `text_tokens`.
        labels: what the scale's labels are called here, in its order; none is by its own names.
    """

    item_id: str
    text_id: str
    text: str
    target: str = ""
    title: str = ""
    source: str = ""
    category: str = ""
    link: str = ""
    given: Mapping[str, str] = field(default_factory=dict)
    votes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    truncated: bool = False
    labels: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        return self.item_id

    @property
    def raters(self) -> tuple[str, ...]:
        """Groups and people who rated it."""
        return tuple(dict.fromkeys((*self.votes, *self.given)))

    @property
    def source_text(self) -> str:
        """What may be quoted: the title and the text, as both are shown.

        Places of quotes and passages, in characters, are counted in it.
        """
        return f"{self.title}\n\n{self.text}" if self.title else self.text


def cut(item: EvinceItem, most: int) -> EvinceItem:
    """The item with its text cut at the last sentence that ends within `most` characters."""
    if len(item.text) <= most:
        return item
    text = item.text.lstrip()
    ends = [match.start() for match in _SENTENCE_END.finditer(text, 1, most + 1)]
    kept = text[: ends[-1] if ends else most].rstrip()
    return replace(item, text=kept, truncated=True)


def item_table(items: Sequence[EvinceItem]) -> pa.Table:
    """The items as `data/items.parquet` holds them."""
    columns = {name: [getattr(item, name) for item in items] for name in ITEM_SCHEMA.names}
    columns["given"] = [list(item.given.items()) for item in items]
    table = pa.table(columns, schema=ITEM_SCHEMA)
    if any(item.votes for item in items):
        votes = [[(who, list(each.items())) for who, each in item.votes.items()] for item in items]
        table = table.append_column(VOTES, pa.array(votes, VOTES.type))
    if any(item.labels for item in items):
        labels = pa.array([list(item.labels) for item in items], LABELS.type)
        table = table.append_column(LABELS, labels)
    return table


def items_of(table: pa.Table) -> Iterator[EvinceItem]:
    """The items of a table that `item_table` made."""
    for row in table.to_pylist():
        votes = {who: dict(each) for who, each in row.get("votes", ())}
        labels = tuple(row.get("labels", ()))
        yield EvinceItem(**{**row, "given": dict(row["given"]), "votes": votes, "labels": labels})
