"""The items of a study: BBQ's files, one's own questions, or SQuAD v2."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from rldf_ray.errors import UserError
from rldf_ray.protocols.item_sets import ItemSet, bbq_of_plan, id_given_twice, sampled
from rldf_ray.protocols.mabrf.items import MabrfItem
from rldf_ray.protocols.mabrf.settings import MabrfSettings
from rldf_ray.protocols.mabrf.squad.data import read_squad
from rldf_ray.sets.bbq.data import load_bbq
from rldf_ray.sets.bbq.items import BBQItem
from rldf_ray.sets.bbq.subset import read_subset
from rldf_ray.storage.home_path import home_path
from rldf_ray.storage.json_lines import parsed_lines, refuse

NOT_DRAWN = "the sample has enough (settings.per_category, settings.items)"


class ItemsError(UserError):
    """The data of a study holds no items, or wrong ones; the message names file and place."""


class _Own(BaseModel):
    """A line of one's own file."""

    model_config = ConfigDict(extra="ignore", frozen=True, coerce_numbers_to_str=True)

    question: str = Field(min_length=1)
    id: str | None = None
    context: str = ""
    category: str = ""
    options: tuple[str, ...] = Field((), max_length=9)
    label: int | None = Field(None, ge=0)
    unknown: int | None = Field(None, ge=0)


def read_items(settings: MabrfSettings, seed: int) -> ItemSet[MabrfItem]:
    """The items of a study, a seeded sample of each category or article; the others counted.

    Raises:
        UserError: the data cannot be read; says which file, and where.
    """
    path = home_path(settings.data)
    if not settings.data or not path.exists():
        raise ItemsError(f"settings.data={settings.data!r}: no such file or folder")
    if path.is_dir() != (settings.kind == "bbq"):
        wanted = "a folder of BBQ's files" if settings.kind == "bbq" else "a file"
        raise ItemsError(
            f"settings.data={settings.data!r}: settings.kind={settings.kind} reads {wanted}"
        )
    if settings.kind == "bbq":
        there = _bbq(path, settings)
    else:
        there = read_squad(path) if settings.kind == "squad" else _own(path, settings)
    if not there:
        raise ItemsError(f"{path} holds no items")
    twice = id_given_twice(there)
    if twice is not None:
        raise ItemsError(f"{path}: the id {twice!r} is given to two items")
    drawn = _of_each(there, path, settings, seed)
    if settings.items is not None:
        drawn = sampled(drawn, settings.items, seed)
    left = len(there) - len(drawn)
    return ItemSet(drawn, {NOT_DRAWN: left} if left else {})


def _of_each(
    there: list[MabrfItem], path: Path, settings: MabrfSettings, seed: int
) -> list[MabrfItem]:
    """At most `per_category` items of each category or article."""
    if settings.per_category is None:
        return there
    if settings.kind == "squad":
        return sampled(there, settings.per_category, seed, lambda item: item.group)
    if settings.kind == "bbq" and not settings.only:
        balanced = bbq_of_plan(path, settings.categories, settings.per_category, seed)
        return [bbq_item(item) for item in balanced.items]
    # A subset of BBQ is not balanced: what is hard has no sibling in it that is not.
    return sampled(there, settings.per_category, seed, lambda item: item.category)


def _bbq(path: Path, settings: MabrfSettings) -> list[MabrfItem]:
    found = bbq_of_plan(path, settings.categories)
    if not settings.only:
        return [bbq_item(item) for item in found.items]
    subset = home_path(settings.only)
    if not subset.is_file():
        raise ItemsError(f"settings.only={settings.only!r}: no such file")
    named = found.only(set(read_subset(subset, load_bbq(path))))
    return [bbq_item(item) for item in named.items]


def bbq_item(item: BBQItem) -> MabrfItem:
    """An item of BBQ; its key is category and id, as question_index is not unique."""
    return MabrfItem(
        item_id=f"{item.category}-{item.example_id}",
        group=f"{item.category}-{item.question_index}",
        category=item.category,
        condition=item.condition,
        context=item.context,
        question=item.question,
        options=item.options,
        label=item.label,
        unknown=item.unknown,
        target=item.target_loc,
    )


def _own(path: Path, settings: MabrfSettings) -> list[MabrfItem]:
    rows, problems = parsed_lines(path, _Own)
    for number, row in rows.items():
        wrong = _problem(row, settings)
        if wrong:
            problems[number] = wrong
    refuse(path, problems)
    return [
        MabrfItem(
            item_id=row.id or f"{path.name.partition('.')[0]}-{number}",
            group=row.id or str(number),
            category=row.category,
            context=row.context,
            question=row.question,
            options=row.options if settings.kind == "choices" else (),
            # Places of options: without them, nothing is the right one.
            label=row.label if settings.kind == "choices" else None,
            unknown=row.unknown if settings.kind == "choices" else None,
        )
        for number, row in rows.items()
    ]


def _problem(row: _Own, settings: MabrfSettings) -> str | None:
    if settings.kind == "choices" and len(row.options) < 2:
        return f"options: fewer than two (found {list(row.options)})"
    for name in ("label", "unknown"):
        place = getattr(row, name)
        if settings.kind == "choices" and place is not None and place >= len(row.options):
            return f"{name}: there are {len(row.options)} options, from 0 on (found {place})"
    return None
