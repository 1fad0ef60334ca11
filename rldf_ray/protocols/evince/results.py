"""A study's tables by item and arm, as its report reads them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from rldf_ray.protocols.evince.items import EvinceItem
from rldf_ray.protocols.evince.metrics import wasserstein
from rldf_ray.protocols.evince.records import Row
from rldf_ray.protocols.evince.scale import Distribution, LabelScale
from rldf_ray.protocols.evince.settings import EvinceSettings

BASELINES = ("one_shot", "mean_of_two", "self_consistency")


@dataclass(frozen=True, kw_only=True)
class Results:
    """What a study came to.

    Attributes:
        items: by id, in their order.
        left_out: rows of the data that are no items, by reason.
    """

    items: Mapping[str, EvinceItem]
    tables: Mapping[str, pa.Table]
    settings: EvinceSettings
    scale: LabelScale
    seed: int
    left_out: Mapping[str, int] = field(default_factory=dict)

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

    @property
    def rates_texts(self) -> bool:
        """Whether dialogues rate the texts, as people and baselines do, and not both positions."""
        return self.settings.rates == "item"

    @property
    def told(self) -> bool:
        """Whether the dialogues as planned are told labels that people gave, and argue for them."""
        return self.rates_texts and self.settings.given != "none" and bool(self.people)

    def label(self, system: str, item_id: str) -> str | None:
        """The label that a text gets; None where that failed, or positions are rated."""
        row = self.outcomes.get(system, {}).get(item_id)
        if row is None or not (self.rates_texts or system in BASELINES):
            return None
        label: str | None = row["label"]
        return label

    def labels(self, system: str, target: str | None = None) -> dict[str, str]:
        """The label of each item that has one, of one target or of all."""
        return {
            item_id: label
            for item_id, item in self.items.items()
            if target in (None, item.target) and (label := self.label(system, item_id)) is not None
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
        label = self.label(system, item_id)
        if label is None:
            return None
        if self.items[item_id].votes:
            return tuple(self.outcomes[system][item_id]["distributions"][0])
        return self.scale.certain(label)

    def said_by(self, system: str, target: str | None = None) -> dict[str, Distribution]:
        """What it says of each item that it says anything of, of one target or of all."""
        return {
            item_id: said
            for item_id, item in self.items.items()
            if target in (None, item.target) and (said := self.said(system, item_id)) is not None
        }

    def apart(self, system: str, who: str, item_id: str) -> float | None:
        """Steps between what a dialogue or baseline says of an item, and a person or group."""
        said, rating = self.said(system, item_id), self.rating(who, item_id)
        if said is None or rating is None:
            return None
        return wasserstein(said, rating, self.scale)

    def paired(
        self, one: Mapping[str, str], other: Mapping[str, str]
    ) -> tuple[list[tuple[str, str]], list[str]]:
        """Labels of the items that both have, and which text each is of."""
        shared = [item for item in self.items if item in one and item in other]
        pairs = [(one[item], other[item]) for item in shared]
        return pairs, [self.items[item].text_id for item in shared]
