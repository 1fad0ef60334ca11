"""A study's tables as its report reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rldf_ray.protocols.persuasion.elo import Fit, draws, fit
from rldf_ray.protocols.persuasion.measures import Row, System, by_system, wins
from rldf_ray.protocols.persuasion.readings import readings
from rldf_ray.protocols.persuasion.settings import PersuasionSettings
from rldf_ray.protocols.persuasion.transcript import PersuasionItem

PEOPLE_JUDGE = "people"
"""The judge of verdicts that people gave."""


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
        """All verdicts of models."""
        rows: Sequence[Row] = self.tables["outcomes"].to_pylist()
        return rows

    @cached_property
    def people(self) -> Sequence[Row]:
        """All verdicts of people; each sees a transcript in one position alone."""
        table = self.tables.get("people")
        return [] if table is None else table.to_pylist()

    @property
    def judges(self) -> Sequence[str]:
        """All who judge, people last."""
        return (*self.settings.judges, *([PEOPLE_JUDGE] if self.people else []))

    @property
    def systems(self) -> Mapping[System, Sequence[Row]]:
        """Verdicts by what they are of; those of matches between two debaters are not there."""
        return self.read["letter"]

    @cached_property
    def rows(self) -> Mapping[str, Sequence[Row]]:
        """By letter: verdicts. By probability: both positions of each together."""
        return {
            "letter": [*self.outcomes, *self.people],
            "probability": readings(self.outcomes),
        }

    @cached_property
    def read(self) -> Mapping[str, Mapping[System, Sequence[Row]]]:
        """The same by what they are of."""
        return {how: by_system(rows) for how, rows in self.rows.items()}

    def bound(self, judge: str, protocol: str, how: str) -> Sequence[Row]:
        """What the naive or the expert judge says, by letter or by probability."""
        system = System(protocol=protocol, interactive=False, judge=judge, debater=None)
        return self.read[how].get(system, ())

    @cached_property
    def groups(self) -> Mapping[str, str]:
        """The story of each question."""
        return {item.item_id: item.group for item in self.items.values()}

    @cached_property
    def stories(self) -> Sequence[str]:
        """Every story once."""
        return sorted(set(self.groups.values()))

    @cached_property
    def drawn(self) -> NDArray[np.int64]:
        """Resamples of stories, which all figures of a tournament share."""
        return draws(len(self.stories), self.seed)

    def judged_by(self, judge: str, how: str) -> Sequence[Row]:
        """What a judge says of debates without its questions; with, where there are no others."""
        interactive = False not in self.settings.interactive
        rows = self.rows[how]
        return [r for r in rows if r["judge"] == judge and r["interactive"] == interactive]

    @cached_property
    def tournaments(self) -> Mapping[tuple[str, str], Tournament]:
        """Ratings of debaters by judge, and by letter or probability; none without matches."""
        if self.settings.matches == "self":
            return {}
        found = {}
        for judge in self.judges:
            for how in self.rows:
                rows = self.judged_by(judge, how)
                every, sides = (
                    fit(wins(rows, self.groups, by_side), self.stories, self.drawn)
                    for by_side in (False, True)
                )
                if every.nodes or sides.nodes:
                    found[judge, how] = Tournament(every=every, sides=sides)
        return found


@dataclass(frozen=True, kw_only=True)
class Tournament:
    """Ratings before one judge.

    Attributes:
        every: a node a debater. sides: a node a debater and side.
    """

    every: Fit
    sides: Fit
