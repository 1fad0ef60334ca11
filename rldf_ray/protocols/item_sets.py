"""Items of a study as a set: every id once; of seeded samples, a larger holds a smaller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from rldf_ray.sets.bbq.data import categories_in, load_bbq
from rldf_ray.sets.bbq.items import BBQError, BBQSet
from rldf_ray.storage.digest import digest


class _Item(Protocol):
    @property
    def item_id(self) -> str: ...


T = TypeVar("T", bound=_Item)


def id_given_twice(items: Sequence[_Item]) -> str | None:
    """The first id that several items have; None where each has its own."""
    counted = Counter(item.item_id for item in items)
    return next((name for name, number in counted.items() if number > 1), None)


def bbq_of_plan(
    folder: Path, categories: Sequence[str], per_category: int | None = None, seed: int = 0
) -> BBQSet:
    """BBQ's items in `settings.categories` of a plan, or in all categories where it names none.

    Raises:
        FileNotFoundError, BBQError, LinesError: as `load_bbq`.
    """
    known = categories_in(folder)
    if unknown := sorted(set(categories) - set(known)):
        raise BBQError(
            f"settings.categories: {', '.join(unknown)}: no such file in {folder}; allowed: "
            f"{', '.join(known)}"
        )
    return load_bbq(folder, categories or None, per_category, seed)


def ranked(items: Sequence[T], seed: int) -> list[T]:
    """The items in an order of the seed, whatever order they come in."""
    return sorted(items, key=lambda item: digest(seed, "item", item.item_id))


def sampled(
    items: Sequence[T], number: int, seed: int, each: Callable[[T], Hashable] = lambda item: None
) -> list[T]:
    """A sample, in the given order.

    Args:
        each: at most `number` of the items that it is equal for; by default of all.
    """
    taken: Counter[Hashable] = Counter()
    chosen: set[str] = set()
    for item in ranked(items, seed):
        if taken[each(item)] < number:
            taken[each(item)] += 1
            chosen.add(item.item_id)
    return [item for item in items if item.item_id in chosen]
