"""What settings were chosen on: items that a comparison's tables then must not be of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rldf_ray.comparison.results import BBQ, ITEMS
from rldf_ray.plan import PlanError
from rldf_ray.sets.bbq.items import BBQItem, Key
from rldf_ray.storage.digest import file_digest
from rldf_ray.storage.parquet import given_table

NAMES = ["set", "group", "item_id", "template"]


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The items that settings were chosen on, as far as they were declared.

    Attributes:
        files: their tables, with hashes.
        items: their keys.
        templates: (category, question template) of each.
    """

    files: Mapping[str, str]
    items: frozenset[Key]
    templates: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, paths: Sequence[str]) -> Selection:
        """The BBQ items (or shipped scenes) of comparisons.

        Args:
            paths: folders of comparisons, or their eval/items.parquet.

        Raises:
            ParquetError: a file has other columns, or is none.
            PlanError: there is no such comparison.
        """
        files = [_table_of(path) for path in paths]
        rows = [
            row
            for file in files
            for row in given_table(file, NAMES).select(NAMES).to_pylist()
            if row["set"].startswith(BBQ)
        ]
        return cls(
            files={str(file): file_digest(file) for file in files},
            items=frozenset((row["group"], int(row["item_id"].rpartition("/")[2])) for row in rows),
            templates=frozenset((row["group"], row["template"]) for row in rows),
        )

    def as_dict(self, asked: Sequence[BBQItem]) -> dict[str, Any]:
        """For compare.json."""
        return {
            "dev_items": len(self.items),
            "files": dict(self.files),
            "templates_shared": len(self.templates & _templates(asked)),
        }

    def note(self, asked: Sequence[BBQItem]) -> str:
        """In a sentence, for the tables."""
        if not self.files:
            return (
                "No items are declared as those that settings were chosen on (--dev-items): "
                "whether the items asked here had a part in it is not known from this comparison."
            )
        templates = _templates(asked)
        return (
            f"Settings were chosen on {len(self.items)} other items, none of which is asked here; "
            f"{len(self.templates & templates)} of the {len(templates)} question templates asked "
            "are theirs, too."
        )


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
