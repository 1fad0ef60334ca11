"""The items of a study: whose form the data has, and which of its texts are debated."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol as Interface
from typing import cast

from rldf_ray.errors import UserError
from rldf_ray.protocols.evince import readers
from rldf_ray.protocols.evince.items import EvinceItem, cut
from rldf_ray.protocols.evince.scale import LabelScale, load_scale
from rldf_ray.protocols.evince.settings import EvinceSettings
from rldf_ray.protocols.item_sets import ItemSet, id_given_twice, sampled
from rldf_ray.storage.home_path import home_path

CHARACTERS_A_TOKEN = 4
EXAMPLES = Path(__file__).parent / "examples.jsonl"
"""Twelve short articles of our own, with made-up labels of two people who do not exist."""


class ItemsError(UserError):
    """The data of a study holds no items, or a wrong one; the message names file and place."""


class Reader(Interface):
    """A module of `readers/` satisfies this with its names."""

    def read(self, file: Path, scale: LabelScale, targets: Sequence[str]) -> Iterable[EvinceItem]:
        """The items of a file, in its order, each text once for each target.

        An `ItemSet` counts the file's rows that are none of them.

        Raises:
            UserError: the file is none of this form; says where.
        """
        ...


def read_items(settings: EvinceSettings, seed: int) -> ItemSet[EvinceItem]:
    """The items of a study: each text once for each target, a seeded sample of texts.

    Rows of the data that its reader leaves out are counted.

    Raises:
        ItemsError, LinesError, ScaleError: with file, place and what is allowed.
    """
    scale = load_scale(settings.scale)
    file = EXAMPLES if settings.data == "examples" else home_path(settings.data)
    if not settings.data or not file.is_file():
        raise ItemsError(
            f"settings.data={settings.data!r}: no such file; allowed: a file, or `examples` for "
            "the articles that ship"
        )
    reader = reader_named(settings.reader)
    found = reader.read(file, scale, settings.targets)
    items = found if isinstance(found, ItemSet) else ItemSet(list(found))
    if not items:
        left = "".join(f"; {n} rows left out as {why}" for why, n in items.left_out.items())
        raise ItemsError(
            f"{file} holds no text for settings.targets={list(settings.targets)}{left}"
        )
    _check(file, items, scale)
    if scale.has_target and any(not item.target for item in items):
        raise ItemsError(
            f"the scale {scale.name!r} asks about a target, and {file} has texts without one: give "
            "settings.targets, or `target` in each"
        )
    chosen = _sample(items, settings.items, seed)
    most = settings.text_tokens * CHARACTERS_A_TOKEN
    return ItemSet([cut(item, most) for item in chosen], items.left_out)


def reader_names() -> list[str]:
    """The readers there are, found by being in their folder."""
    return sorted(m.name for m in pkgutil.iter_modules(readers.__path__))


def reader_named(name: str) -> Reader:
    """The reader of a module in `readers/`.

    Raises:
        ItemsError: there is none.
    """
    if name not in reader_names():
        raise ItemsError(
            f"settings.reader={name!r}: no such reader; allowed: {', '.join(reader_names())}"
        )
    return cast(Reader, importlib.import_module(f"{readers.__name__}.{name}"))


def _check(file: Path, items: Sequence[EvinceItem], scale: LabelScale) -> None:
    twice = id_given_twice(items)
    if twice is not None:
        raise ItemsError(f"{file}: the id {twice!r} is given to two items")
    for item in items:
        if not item.text.strip():
            raise ItemsError(f"{file}: {item.item_id!r} has no text")
        unknown = sorted(set(item.given.values()) - set(scale.names))
        if unknown:
            raise ItemsError(
                f"{file}: {item.item_id!r} has the label {unknown[0]!r}; the scale {scale.name!r} "
                f"has {', '.join(scale.names)}"
            )


def _sample(items: Sequence[EvinceItem], number: int | None, seed: int) -> list[EvinceItem]:
    """All items of `number` texts; which texts they are does not depend on the targets."""
    if number is None:
        return list(items)
    texts = {item.text_id: replace(item, item_id=item.text_id) for item in items}
    chosen = {text.text_id for text in sampled(list(texts.values()), number, seed)}
    return [item for item in items if item.text_id in chosen]
