"""A study's tables by arm, as its report reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from rldf_ray.protocols.mabrf.items import MabrfItem
from rldf_ray.protocols.mabrf.measures import Row
from rldf_ray.protocols.mabrf.settings import MabrfSettings
from rldf_ray.stats import Estimate, clustered_estimate


@dataclass(frozen=True, kw_only=True)
class Results:
    """What a study came to.

    Attributes:
        left_out: items of its data that it does not take, by reason.
    """

    items: Sequence[MabrfItem]
    tables: Mapping[str, pa.Table]
    settings: MabrfSettings
    seed: int
    left_out: Mapping[str, int] = field(default_factory=dict)

    @property
    def threshold(self) -> int:
        """Bias above which steps are flagged."""
        return self.settings.loop.threshold

    @cached_property
    def arms(self) -> Mapping[str, Mapping[str, Row]]:
        """Outcomes by arm, then by item."""
        found: dict[str, dict[str, Row]] = {}
        for row in self.tables["outcomes"].to_pylist():
            found.setdefault(row["arm"], {})[row["item_id"]] = row
        return found

    @property
    def first(self) -> Mapping[str, Row]:
        """Outcomes by item of one arm, for the first reasoning, which all arms share."""
        return next(iter(self.arms.values()), {})

    @cached_property
    def passes(self) -> Sequence[Row]:
        """All rewritings."""
        rows: Sequence[Row] = self.tables["passes"].to_pylist()
        return rows

    @cached_property
    def groups(self) -> Mapping[str, str]:
        """What each item is resampled with."""
        return {item.item_id: item.group for item in self.items}

    def mean(
        self, of: Callable[[Row], float | None], outcomes: Mapping[str, Row]
    ) -> Estimate | None:
        """The mean of a figure over the items that have it."""
        pairs = [
            (value, self.groups[i]) for i, row in outcomes.items() if (value := of(row)) is not None
        ]
        return clustered_estimate([v for v, _ in pairs], [g for _, g in pairs], self.seed)

    def retest(self, what: str, outcomes: Mapping[str, Row]) -> Estimate | None:
        """How far the judge's further verdicts on first steps are from its first."""
        pairs = [
            (abs(again - row[f"{what}_0"]), self.groups[item])
            for item, row in outcomes.items()
            for again in row[f"retest_{what}"] or ()
        ]
        return clustered_estimate([v for v, _ in pairs], [g for _, g in pairs], self.seed)
