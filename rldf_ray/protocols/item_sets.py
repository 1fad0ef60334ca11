"""Items of a study as a set: every id once; of seeded samples, a larger holds a smaller.

What the data have and a study does not take is counted, by reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Protocol, TypeVar, overload

from rldf_ray.sets.bbq.data import categories_in, load_bbq
from rldf_ray.sets.bbq.items import BBQError, BBQSet
from rldf_ray.storage.digest import digest


class _Item(Protocol):
    @property
    def item_id(self) -> str: ...


T = TypeVar("T", bound=_Item)
Chosen = TypeVar("Chosen")


@dataclass(frozen=True, slots=True)
class ItemSet(Sequence[Chosen], Generic[Chosen]):
    """The items of a study, and how many of its data are none of them.

    Attributes:
        left_out: number by reason, a clause that ends "left out as ...".
    """

    items: Sequence[Chosen]
    left_out: Mapping[str, int] = field(default_factory=dict)

    @overload
    def __getitem__(self, place: int) -> Chosen: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Chosen]: ...

    def __getitem__(self, place: int | slice) -> Chosen | Sequence[Chosen]:
        return self.items[place]

    def __len__(self) -> int:
        return len(self.items)


def left_out_of(items: Sequence[object]) -> Mapping[str, int]:
    """What was left out where items were chosen; nothing of a plain sequence."""
    return items.left_out if isinstance(items, ItemSet) else {}


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
