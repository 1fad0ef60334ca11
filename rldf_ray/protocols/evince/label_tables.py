"""Tables 1 and 2 in form: everybody's labels of each text, and how far apart they are.

Distances are computed, never copied. S lying between others does not make it a correct label.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rldf_ray.figures.estimates import shown
from rldf_ray.protocols.evince.agreement import agreement
from rldf_ray.protocols.evince.items import EvinceItem
from rldf_ray.protocols.evince.metrics import wasserstein
from rldf_ray.protocols.evince.results import Results
from rldf_ray.protocols.evince.scale import Distribution
from rldf_ray.protocols.study import StudyTable
from rldf_ray.stats import Estimate, clustered_estimate

FIRST_LETTERS = ("D", "R")
"""The paper's letters of the first two who gave labels; further ones are P3, P4 and so on."""
OURS, ONE_SHOT = "S", "g"
NONE = "–"


def labels_tables(results: Results) -> Iterator[StudyTable]:
    """A table for each target: labels of people, the dialogue and one answer, and distances.

    None where positions are rated: they have no label of the text.
    """
    if not results.rates_texts:
        return
    for number, target in enumerate(results.targets, start=1):
        table = _Table(results, target, letters(results.people))
        if table.items:
            yield table.made(number)


def letters(people: Sequence[str]) -> dict[str, str]:
    """What tables call those who gave labels, in the order in which they are first met."""
    later = [f"P{number}" for number in range(3, len(people) + 1)]
    return dict(zip(people, [*FIRST_LETTERS, *later], strict=False))


def pairs(named: Sequence[str]) -> list[tuple[str, str]]:
    """Whose distance tables have: DR, DS, SR, and S to everybody else."""
    first, later = named[:2], named[2:]
    if len(first) < 2:
        return [(one, OURS) for one in first]
    d, r = first
    return [(d, r), (d, OURS), (OURS, r), *((OURS, one) for one in later)]


@dataclass(frozen=True)
class _Table:
    """Tables 1 and 2 in form, of one target.

    Attributes:
        letters: by who gave labels.
    """

    results: Results
    target: str
    letters: Mapping[str, str]

    @property
    def items(self) -> list[EvinceItem]:
        """Those that anybody labelled, be it a person or the dialogue."""
        held = self.results.labels("main")
        return [
            item
            for item in self.results.items.values()
            if item.target == self.target and (item.item_id in held or item.raters)
        ]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        return pairs(list(self.letters.values()))

    def made(self, number: int) -> StudyTable:
        """The table, a row an item, then sums of distances, then S against each person."""
        toward = f"toward {self.target} " if self.target else ""
        names = ["".join(pair) for pair in self.pairs]
        return StudyTable(
            name=f"labels-{number}",
            title=f"Labels {toward}(form of Tables 1 and 2)",
            columns=["id", "category", *self._names, ", ".join(names) or "distances", "source"],
            rows=[*map(self._row, self.items), *self._totals(), *self._against()],
            notes=self._notes(),
        )

    @property
    def _names(self) -> tuple[str, ...]:
        return self.results.scale.names

    def _row(self, item: EvinceItem) -> list[str]:
        marks = [self._marks(item, name) for name in self._names]
        return [item.item_id, item.category, *marks, self._distances_cell(item), item.source]

    def _marks(self, item: EvinceItem, label: str) -> str:
        """Who gives an item this label; of a group, how many of how many do."""
        marks = []
        for who, letter in self.letters.items():
            votes = item.votes.get(who, {})
            if votes and votes.get(label, 0) == max(votes.values()):
                marks.append(f"{letter} {votes[label]}/{sum(votes.values())}")
            elif not votes and item.given.get(who) == label:
                marks.append(letter)
        for letter, system in ((OURS, "main"), (ONE_SHOT, "one_shot")):
            if self.results.label(system, item.item_id) == label:
                marks.append(letter)
        return " ".join(marks)

    def _distances(self, item: EvinceItem) -> list[float | None]:
        said: dict[str, Distribution | None] = {
            letter: self.results.rating(who, item.item_id) for who, letter in self.letters.items()
        }
        said[OURS] = self.results.said("main", item.item_id)
        return [self._between(said[one], said[other]) for one, other in self.pairs]

    def _between(self, one: Distribution | None, other: Distribution | None) -> float | None:
        if one is None or other is None:
            return None
        return wasserstein(one, other, self.results.scale)

    def _distances_cell(self, item: EvinceItem) -> str:
        return self._cell([None if d is None else f"{d:.4g}" for d in self._distances(item)])

    def _cell(self, values: Sequence[str | None]) -> str:
        """As the paper writes them; with names, and without what is missing, where there are more.

        A dash stands for what is missing.
        """
        if len(self.letters) <= 2:
            return ", ".join(NONE if value is None else value for value in values)
        named = zip(map("".join, self.pairs), values, strict=True)
        return ", ".join(f"{name} {value}" for name, value in named if value is not None)

    def _totals(self) -> Iterator[list[str]]:
        sums = []
        for column in zip(*map(self._distances, self.items), strict=True):
            known = [d for d in column if d is not None]
            counted = "" if len(known) == len(column) else f" ({len(known)})"
            sums.append(f"{sum(known):.6g}{counted}" if known else None)
        if sums:
            yield self._wide("total", self._cell(sums))

    def _against(self) -> Iterator[list[str]]:
        """S against each person: weighted kappa, and mean absolute difference in steps."""
        results, labels = self.results, self.results.labels("main", self.target)
        for who, letter in self.letters.items():
            mean = self._apart_from(who)
            if mean is None:
                continue
            shared = results.paired(labels, results.given(who, self.target))
            agreed = agreement(*shared, results.scale, results.seed)
            kappa = shown(None if agreed is None else agreed.kappa)
            # A group that is split evenly is apart from S by its shares, and has no label.
            fewer = f", n = {agreed.n}" if agreed is not None and agreed.n != mean.n else ""
            cell = f"{shown(mean)} apart; kappa {kappa}{fewer}"
            yield self._wide(f"{OURS} and {letter}", cell, f"n = {mean.n}")

    def _apart_from(self, who: str) -> Estimate | None:
        """Mean distance of S to a person, over the items that have both."""
        apart, texts = [], []
        for item in self.items:
            steps = self.results.apart("main", who, item.item_id)
            if steps is not None:
                apart.append(steps)
                texts.append(item.text_id)
        return clustered_estimate(apart, texts, self.results.seed)

    def _wide(self, name: str, cell: str, number: str = "") -> list[str]:
        """A row of all items."""
        return [name, number, *[""] * len(self._names), cell, ""]

    def _notes(self) -> list[str]:
        named = "".join(f"{letter} is {who}; " for who, letter in self.letters.items())
        notes = [
            (
                f"{named}S is the dialogue's label, g one answer without a dialogue. Distances are "
                "in steps; a sum is of as many items as stand in brackets, where not of all. "
                "Below: the mean distance of S to each person, and weighted kappa (squared steps); "
                "intervals resample texts. S lying between others does not make it the correct one."
            )
        ]
        if any(item.votes for item in self.items):
            notes.append(
                "A group of people stands at the label that most of it gave, with how many of how "
                "many; its distances are those of the shares of its labels, and to S of these to "
                "the dialogue's probabilities."
            )
        return notes
