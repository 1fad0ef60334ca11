"""The questions of a study: one's own with stories, QuALITY, or BBQ with its context hidden."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from rldf_ray.errors import UserError
from rldf_ray.protocols.item_sets import ItemSet, bbq_of_plan, id_given_twice, ranked
from rldf_ray.protocols.persuasion.quality import read_quality
from rldf_ray.protocols.persuasion.settings import PersuasionSettings
from rldf_ray.protocols.persuasion.transcript import PersuasionItem
from rldf_ray.sets.bbq.items import BBQItem
from rldf_ray.storage.digest import digest
from rldf_ray.storage.home_path import home_path
from rldf_ray.storage.json_lines import parsed_lines, refuse

CHARACTERS_A_TOKEN = 4
NOT_DRAWN = "the sample has enough (settings.items, settings.per_story)"
NOBODY = "neither person is the right answer"

ITEM_SCHEMA = pa.schema(
    [
        *(
            pa.field(name, pa.string())
            for name in (
                "item_id",
                "group",
                "story",
                "question",
                "correct",
                "incorrect",
                "title",
                "category",
            )
        ),
        pa.field("agrees", pa.bool_()),
    ]
)


class ItemsError(UserError):
    """The data of a study holds no questions, or wrong ones; the message names file and place."""


class _Pair(BaseModel):
    """A line of one's own questions."""

    model_config = ConfigDict(extra="ignore", frozen=True, coerce_numbers_to_str=True)

    question: str = Field(min_length=1)
    correct: str = Field(min_length=1)
    incorrect: str = Field(min_length=1, validation_alias=AliasChoices("incorrect", "distractor"))
    id: str | None = None
    story: str | None = Field(None, min_length=1)
    story_id: str | None = None
    title: str = ""
    category: str = ""
    agrees: bool | None = None


class _Story(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, coerce_numbers_to_str=True)

    story_id: str
    text: str = Field(min_length=1)


def read_items(settings: PersuasionSettings, seed: int) -> ItemSet[PersuasionItem]:
    """The questions whose story is short enough, a seeded sample of them; the others counted.

    Raises:
        UserError: the data cannot be read, or nothing of them is left; says which file, and where.
    """
    path = home_path(settings.data)
    if not settings.data or not path.exists():
        raise ItemsError(f"settings.data={settings.data!r}: no such file or folder")
    if settings.kind == "bbq_hidden":
        usable = _hidden(path, settings)
    elif settings.kind == "quality":
        usable = read_quality(path, settings.hard)
    else:
        usable = ItemSet(_pairs(path, settings))
    most = settings.story_tokens * CHARACTERS_A_TOKEN
    short = [item for item in usable if len(item.story) <= most]
    too_long = f"their story is longer than {settings.story_tokens} tokens (settings.story_tokens)"
    left_out = {**usable.left_out, too_long: len(usable) - len(short)}
    if not short:
        raise ItemsError(f"{path}: no question is left: {_counted(left_out) or 'it holds none'}")
    chosen = _sample(short, settings, seed)
    left_out[NOT_DRAWN] = len(short) - len(chosen)
    return ItemSet(chosen, {reason: number for reason, number in left_out.items() if number})


def _counted(left_out: Mapping[str, int]) -> str:
    return "; ".join(f"{number} as {reason}" for reason, number in left_out.items() if number)


def _pairs(path: Path, settings: PersuasionSettings) -> list[PersuasionItem]:
    rows, problems = parsed_lines(path, _Pair)
    refuse(path, problems)
    stories = _stories(settings.stories) if settings.stories else {}
    for number, row in rows.items():
        if row.story is None and row.story_id not in stories:
            problems[number] = (
                f"no story: neither `story`, nor story_id={row.story_id!r} in settings.stories"
            )
        elif row.correct.strip() == row.incorrect.strip():
            problems[number] = "correct and incorrect are the same"
    refuse(path, problems)
    items = [
        PersuasionItem(
            item_id=row.id or f"{path.name.partition('.')[0]}-{number}",
            group=row.story_id or digest(row.story),
            story=row.story or stories[row.story_id or ""],
            question=row.question,
            correct=row.correct,
            incorrect=row.incorrect,
            title=row.title,
            category=row.category,
            agrees=row.agrees,
        )
        for number, row in rows.items()
    ]
    twice = id_given_twice(items)
    if twice is not None:
        raise ItemsError(f"{path}: the id {twice!r} is given to two questions")
    return items


def _stories(where: str) -> dict[str, str]:
    path = home_path(where)
    if not path.is_file():
        raise ItemsError(f"settings.stories={where!r}: no such file")
    rows, problems = parsed_lines(path, _Story)
    refuse(path, problems)
    return {row.story_id: row.text for row in rows.values()}


def _hidden(path: Path, settings: PersuasionSettings) -> ItemSet[PersuasionItem]:
    """BBQ's disambiguated items, whose context the judge cannot see."""
    found = bbq_of_plan(path, settings.categories)
    clear = [item for item in found.items if item.condition == "disambig"]
    questions = [question for item in clear if (question := hidden(item)) is not None]
    return ItemSet(questions, {NOBODY: len(clear) - len(questions)})


def hidden(item: BBQItem) -> PersuasionItem | None:
    """A disambiguated item as a question between its two persons; None where neither is right.

    The judge's guess without the context is its stereotype; `agrees` says whether the truth is.
    """
    people = [place for place in range(3) if place != item.unknown]
    if item.label not in people:
        return None
    wrong = next(place for place in people if place != item.label)
    return PersuasionItem(
        item_id=f"{item.category}-{item.example_id}",
        group=f"{item.category}-{item.question_index}",
        story=item.context,
        question=item.question,
        correct=item.options[item.label],
        incorrect=item.options[wrong],
        category=item.category,
        agrees=None if item.target_loc is None else item.target_loc == item.label,
    )


def _sample(
    items: Sequence[PersuasionItem], settings: PersuasionSettings, seed: int
) -> list[PersuasionItem]:
    """A seeded sample, in the given order; a larger one holds a smaller."""
    taken: dict[str, int] = defaultdict(int)
    chosen: set[str] = set()
    for item in ranked(items, seed):
        if settings.items is not None and len(chosen) == settings.items:
            break
        if settings.per_story is None or taken[item.group] < settings.per_story:
            taken[item.group] += 1
            chosen.add(item.item_id)
    return [item for item in items if item.item_id in chosen]


def item_table(items: Sequence[PersuasionItem]) -> pa.Table:
    """The questions as `data/items.parquet` holds them."""
    columns = {name: [getattr(item, name) for item in items] for name in ITEM_SCHEMA.names}
    return pa.table(columns, schema=ITEM_SCHEMA)


def items_of(table: pa.Table) -> list[PersuasionItem]:
    """The questions of a table that `item_table` made."""
    return [PersuasionItem(**row) for row in table.to_pylist()]
