"""A study's tables as its report reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from rldf_ray.protocols.persuasion.elo import Node, ratings
from rldf_ray.protocols.persuasion.measures import Row, System, by_system, wins
from rldf_ray.protocols.persuasion.readings import readings
from rldf_ray.protocols.persuasion.settings import PersuasionSettings
from rldf_ray.protocols.persuasion.transcript import PersuasionItem
from rldf_ray.stats import Estimate


@dataclass(frozen=True, kw_only=True)
class Results:
    """What a study came to.

    Attributes:
        left_out: questions of its data that it does not take, by reason.
    """

    items: Mapping[str, PersuasionItem]
    tables: Mapping[str, pa.Table]
    settings: PersuasionSettings
    seed: int
    left_out: Mapping[str, int]

    @cached_property
    def outcomes(self) -> Sequence[Row]:
        """All verdicts."""
        rows: Sequence[Row] = self.tables["outcomes"].to_pylist()
        return rows

    @cached_property
    def systems(self) -> Mapping[System, Sequence[Row]]:
        """Verdicts by what they are of; those of matches between two debaters are not there."""
        return by_system(self.outcomes)

    @cached_property
    def read(self) -> Mapping[str, Mapping[System, Sequence[Row]]]:
        """By letter: verdicts; by probability: both positions together. Of each system."""
        return {"letter": self.systems, "probability": by_system(readings(self.outcomes))}

    def bound(self, judge: str, protocol: str, how: str) -> Sequence[Row]:
        """What the naive or the expert judge says, by letter or by probability."""
        system = System(protocol=protocol, interactive=False, judge=judge, debater=None)
        return self.read[how].get(system, ())

    @cached_property
    def groups(self) -> Mapping[str, str]:
        """The story of each question."""
        return {item.item_id: item.group for item in self.items.values()}

    def judged_by(self, judge: str) -> Sequence[Row]:
        """The verdicts of a judge on debates without its questions; with, where there are no
        others."""
        interactive = False not in self.settings.interactive
        return [r for r in self.outcomes if r["judge"] == judge and r["interactive"] == interactive]

    def elo(self, judge: str, by_side: bool) -> Mapping[Node, Estimate]:
        """Ratings of debaters before a judge; none without matches of two debaters."""
        if self.settings.matches == "self":
            return {}
        return ratings(wins(self.judged_by(judge), self.groups, by_side), self.seed)
