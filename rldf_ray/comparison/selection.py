"""What settings were chosen on: items that a comparison's tables then must not be of.

Items are known by their set and their number in it. BBQ and the scenes shipped here have names of
categories, numbers and templates in common, so it is the items themselves that tell whose they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rldf_ray.comparison.results import BBQ, ITEMS, MULTIROLE
from rldf_ray.evaluate.bbq.run_models import load_items
from rldf_ray.evaluate.multirole.data import load_multirole
from rldf_ray.plan import Plan, PlanError
from rldf_ray.sets.bbq.items import BBQItem, Key
from rldf_ray.storage.digest import file_digest
from rldf_ray.storage.parquet import given_table

COLUMNS = ["set", "group", "item_id", "template"]
# What an item of a table and one of a set have in common if they are one.
SAME = ["condition", "polarity", "label", "unknown"]

_Rows = Mapping[Key, Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The items that settings were chosen on, as far as they were declared.

    Attributes:
        files: their tables, with hashes.
        items: keys of those that are of the comparison's own set.
        templates: (category, question template) of each.
        queries: keys of those that are of its multi-role set.
        others: how many were of other sets, and are none of these.
    """

    files: Mapping[str, str]
    items: frozenset[Key] = frozenset()
    templates: frozenset[tuple[str, str]] = frozenset()
    queries: frozenset[Key] = frozenset()
    others: int = 0

    @classmethod
    def of(cls, paths: Sequence[str], plan: Plan) -> Selection:
        """What comparisons asked, of the sets that this plan's comparison asks.

        Args:
            paths: folders of comparisons, or their eval/items.parquet.

        Raises:
            BBQError, MultiroleError: the plan's sets cannot be read.
            ParquetError: a file has other columns, or is none.
            PlanError: there is no such comparison.
        """
        if not paths:
            return cls(files={})
        files = [_table_of(path) for path in paths]
        multirole = plan.evaluate.multirole
        own = _by_key(_every_item(plan))
        queries = _by_key(() if multirole is None else load_multirole(multirole, None).items)
        items: dict[Key, str] = {}
        asked: set[Key] = set()
        others = 0
        for file in files:
            of_bbq, of_multirole = _read(file)
            if _are_of(of_bbq, own):
                items |= {key: row["template"] for key, row in of_bbq.items()}
            else:
                others += len(of_bbq)
            if _are_of(of_multirole, queries):
                asked |= of_multirole.keys()
            else:
                others += len(of_multirole)
        return cls(
            files={str(file): file_digest(file) for file in files},
            items=frozenset(items),
            templates=frozenset((category, t) for (category, _), t in items.items()),
            queries=frozenset(asked),
            others=others,
        )

    def as_dict(self, asked: Sequence[BBQItem]) -> dict[str, Any]:
        """For compare.json."""
        return {
            "dev_items": len(self.items),
            "dev_queries": len(self.queries),
            "of_other_sets": self.others,
            "files": dict(self.files),
            "templates_shared": len(self.templates & _templates(asked)),
        }

    def note(self, asked: Sequence[BBQItem]) -> str:
        """In a sentence or two, for the tables."""
        if not self.files:
            return (
                "No items are declared as those that settings were chosen on (--dev-items): "
                "whether the items asked here had a part in it is not known from this comparison."
            )
        return " ".join(self._sentences(_templates(asked)))

    def _sentences(self, templates: frozenset[tuple[str, str]]) -> Iterator[str]:
        if self.items:
            yield (
                f"Settings were chosen on {len(self.items)} other items, none of which is asked "
                f"here; {len(self.templates & templates)} of the {len(templates)} question "
                "templates asked are theirs, too."
            )
        if self.queries:
            yield (
                f"Settings were chosen on {len(self.queries)} other queries of the multi-role set, "
                "none of which is asked here."
            )
        if self.others:
            yield (
                f"Settings were chosen on {self.others} items of other sets than those asked here, "
                "which leave out none of these."
            )


def short_note(plan: Plan, asked: Sequence[BBQItem]) -> list[str]:
    """A sentence where a category has fewer items than the plan's sample has of each."""
    most = plan.evaluate.items_per_category
    if most is None:
        return []
    whole = 4 * (most // 4)
    counts = Counter(item.category for item in asked)
    ambiguous = Counter(item.category for item in asked if item.condition == "ambig")
    short = [
        f"{category} {number} ({ambiguous[category]} of them ambiguous)"
        for category, number in sorted(counts.items())
        if number < whole
    ]
    if not short:
        return []
    note = (
        f"Fewer items than the {whole} of a category that were to be drawn, all that is left of "
        f"it, balanced or not: {', '.join(short)}."
    )
    return [note]


def _every_item(plan: Plan) -> Sequence[BBQItem]:
    section = plan.evaluate.model_copy(update={"items_per_category": None})
    return load_items(plan.model_copy(update={"evaluate": section})).items


def _by_key(items: Sequence[BBQItem]) -> Mapping[Key, BBQItem]:
    return {item.key: item for item in items}


def _read(file: Path) -> tuple[_Rows, _Rows]:
    """The items of a comparison by their keys: of BBQ or the scenes, and of the multi-role set."""
    names = [*COLUMNS, *SAME]
    read: tuple[dict[Key, Any], dict[Key, Any]] = ({}, {})
    for row in given_table(file, names).select(names).to_pylist():
        if row["set"] == MULTIROLE or row["set"].startswith(BBQ):
            key = row["group"], int(row["item_id"].rpartition("/")[2])
            read[row["set"] == MULTIROLE][key] = row
    return read


def _are_of(rows: _Rows, items: Mapping[Key, BBQItem]) -> bool:
    """Whether most rows that have an item's number are that item; so are all, or none.

    Labels of single items may have been corrected since.
    """
    both = [(row, items[key]) for key, row in rows.items() if key in items]
    same = [
        item
        for row, item in both
        if (row["template"], *(row[name] for name in SAME))
        == (item.question_index, *(getattr(item, name) for name in SAME))
    ]
    return len(same) > len(both) / 2


def _templates(items: Sequence[BBQItem]) -> frozenset[tuple[str, str]]:
    return frozenset((item.category, item.question_index) for item in items)


def _table_of(path: str) -> Path:
    """The items of a comparison by its folder, its `compare` folder or its table."""
    given = Path(path)
    for file in (given, given / ITEMS, given / "compare" / ITEMS):
        if file.is_file():
            return file
    raise PlanError(
        f"--dev-items {path}: no comparison is there; give its folder or its eval/items.parquet"
    )
