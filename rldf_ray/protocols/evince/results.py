"""A study's tables by item and arm, as its report reads them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from rldf_ray.protocols.evince.items import EvinceItem
from rldf_ray.protocols.evince.records import Row
from rldf_ray.protocols.evince.scale import Distribution, LabelScale
from rldf_ray.protocols.evince.settings import EvinceSettings

BASELINES = ("one_shot", "mean_of_two", "self_consistency")


@dataclass(frozen=True, kw_only=True)
class Results:
    """What a study came to.

    Attributes:
        items: by id, in their order.
    """

    items: Mapping[str, EvinceItem]
    tables: Mapping[str, pa.Table]
    settings: EvinceSettings
    scale: LabelScale
    seed: int

    @cached_property
    def outcomes(self) -> Mapping[str, Mapping[str, Row]]:
        """By arm or baseline, then by item."""
        found: dict[str, dict[str, Row]] = defaultdict(dict)
        for row in self.tables["outcomes"].to_pylist():
            found[row["arm"]][row["item_id"]] = row
        return found

    @cached_property
    def rounds(self) -> Mapping[tuple[str, str], Sequence[Row]]:
        """By item and arm, round 1 first."""
        return self._grouped("rounds", "round")

    @cached_property
    def arguments(self) -> Mapping[tuple[str, str], Sequence[Row]]:
        """By item and arm, in the order in which they were made."""
        return self._grouped("arguments", "round")

    def _grouped(self, table: str, by: str) -> Mapping[tuple[str, str], Sequence[Row]]:
        found: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for row in sorted(self.tables[table].to_pylist(), key=lambda row: row[by]):
            found[row["item_id"], row["arm"]].append(row)
        return found

    @property
    def arms(self) -> list[str]:
        """The dialogues that were held, in the plan's order."""
        return [arm for arm in self.settings.arms if arm in self.outcomes]

    @property
    def systems(self) -> list[str]:
        """Dialogues, then baselines."""
        return [*self.arms, *(name for name in BASELINES if name in self.outcomes)]

    @cached_property
    def people(self) -> list[str]:
        """Who gave labels, in the order in which they are first met."""
        return list(dict.fromkeys(who for item in self.items.values() for who in item.raters))

    @cached_property
    def targets(self) -> list[str]:
        """What labels are about, in order; one, "", where there are no targets."""
        return list(dict.fromkeys(item.target for item in self.items.values()))

    def labels(self, system: str, target: str | None = None) -> dict[str, str]:
        """The label of each item that has one, of one target or of all."""
        return {
            item: row["label"]
            for item, row in self.outcomes.get(system, {}).items()
            if row["label"] is not None and target in (None, self.items[item].target)
        }

    def given(self, who: str, target: str | None = None) -> dict[str, str]:
        """The labels that a person gave."""
        return {
            item.item_id: item.given[who]
            for item in self.items.values()
            if who in item.given and target in (None, item.target)
        }

    def rating(self, who: str, item_id: str) -> Distribution | None:
        """What a person or a group says of an item; None where neither rated it.

        A person's label counts as certain; a group has the shares of its members' labels.
        """
        item, names = self.items[item_id], self.scale.names
        votes = item.votes.get(who)
        if votes:
            return tuple(votes.get(name, 0) / sum(votes.values()) for name in names)
        return self.scale.certain(item.given[who]) if who in item.given else None

    def said(self, system: str, item_id: str) -> Distribution | None:
        """What a dialogue or baseline says of an item, to be held against `rating`.

        Its label, as the paper has it; its distribution where groups rated the item, whose shares
        are held against its probabilities (a choice).
        """
        row = self.outcomes.get(system, {}).get(item_id)
        if row is None or row["label"] is None:
            return None
        if self.items[item_id].votes:
            return tuple(row["distributions"][0])
        return self.scale.certain(row["label"])

    def paired(
        self, one: Mapping[str, str], other: Mapping[str, str]
    ) -> tuple[list[tuple[str, str]], list[str]]:
        """Labels of the items that both have, and which text each is of."""
        shared = [item for item in self.items if item in one and item in other]
        pairs = [(one[item], other[item]) for item in shared]
        return pairs, [self.items[item].text_id for item in shared]
