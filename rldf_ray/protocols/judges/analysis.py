"""What verdicts come to: consistency, what of it is bias, accuracy, and how much is no verdict.

Consistency is the paper's equation 1. An item counts once; intervals resample groups (questions),
never cells.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from rldf_ray.protocols.judges.views import JudgedItem
from rldf_ray.stats import Estimate, clustered_estimate

NOTHING = "none"
Row = Mapping[str, Any]
"""A row of a study's outcomes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """Who judges, and how."""

    system: str
    judge: str
    critic: str | None = None
    pool: str | None = None
    mode: str | None = None

    @property
    def title(self) -> str:
        if self.critic is not None:
            return f"{self.judge} / {self.critic}"
        if self.pool is not None:
            return f"{self.judge} over {self.pool}, {self.mode}"
        return self.judge if self.system == "single" else f"{self.judge}, plain prompt"


class Outcomes:
    """The verdicts of a study by system, round and condition."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._by: dict[tuple[System, int, str], dict[tuple[str, int], Row]] = defaultdict(dict)
        for row in rows:
            names = ("system", "judge", "critic", "pool", "mode")
            system = System(**{name: row[name] for name in names})
            key = system, row["round"], row["condition"]
            self._by[key][row["item_id"], row["rerun"]] = row

    def systems(self, kind: str | None = None) -> list[System]:
        """In the order in which they were first met."""
        every = dict.fromkeys(system for system, _, _ in self._by)
        return [system for system in every if kind in (None, system.system)]

    def rounds(self, system: System) -> list[int]:
        return sorted({number for other, number, _ in self._by if other == system})

    def conditions(self) -> list[str]:
        return list(dict.fromkeys(condition for _, _, condition in self._by))

    def rows(self, system: System, number: int, condition: str) -> list[Row]:
        return list(self._by.get((system, number, condition), {}).values())

    def paired(self, system: System, number: int, condition: str) -> Iterator[tuple[Row, Row]]:
        """Every verdict under a condition, after the clean one on the same item."""
        undisturbed = self._by.get((system, number, "clean"), {})
        for (item, _), row in self._by.get((system, number, condition), {}).items():
            if (item, 0) in undisturbed:
                yield undisturbed[item, 0], row


def consistent(clean: Row, changed: Row) -> bool:
    """Both verdicts are valid and for the same candidate, or both ties (equation 1)."""
    return clean["winner"] is not None and clean["winner"] == changed["winner"]


def signed_shift(clean: Row, changed: Row) -> float | None:
    """How far a verdict went where the condition pushes; None where it pushes nowhere.

    None, too, where one of the two is no verdict: a text that does not parse went nowhere. For
    position: what the answer that stands first gains over the other, mean of both orders, from
    -1 to 1. Otherwise whether the pushed candidate wins now, less whether it won before. Only this
    tells a bias from verdicts that merely change; the paper lacks it.
    """
    if clean["winner"] is None or changed["winner"] is None:
        return None
    if changed["condition"] in ("position", "position_labels"):
        first_clean = _wins(clean, 1) - _wins(clean, 2)
        first_changed = _wins(changed, 2) - _wins(changed, 1)
        return (first_clean + first_changed) / 2
    if changed["pushed"] is None:
        return None
    return float(_wins(changed, changed["pushed"]) - _wins(clean, changed["pushed"]))


def _wins(row: Row, candidate: int) -> int:
    return int(row["winner"] == str(candidate))


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One system in one round under one condition, against its clean verdicts.

    Attributes:
        consistency: share of items with the same winner; an invalid verdict is inconsistent.
        consistency_valid: the same over items with two valid verdicts.
        consistency_reused: as the paper's code counts, with loose parsing and stale scores; None
            where the judge chooses among others' texts and writes no scores of its own.
        excess: what reruns keep and this condition does not, a share of the same items.
        excess_p: McNemar's exact test of it, on the first rerun.
        shift: mean signed shift, over items with two valid verdicts.
        score_change: mean absolute change of a candidate's score.
    """

    system: System
    round: int
    condition: str
    consistency: Estimate | None
    consistency_valid: Estimate | None
    consistency_reused: Estimate | None
    excess: Estimate | None
    excess_p: float | None
    shift: Estimate | None
    score_change: float | None


def cell(
    outcomes: Outcomes,
    items: Mapping[str, JudgedItem],
    system: System,
    number: int,
    condition: str,
    seed: int,
) -> Cell:
    """The figures of one cell; those that have no item are None."""
    pairs = list(outcomes.paired(system, number, condition))
    groups = [items[row["item_id"]].group for _, row in pairs]
    same = [float(consistent(clean, row)) for clean, row in pairs]
    valid = [i for i, (c, r) in enumerate(pairs) if c["winner"] and r["winner"]]
    chooses = system.mode == "select"
    reused = None if chooses else _reused(outcomes, items, system, number, condition)
    shifts = [signed_shift(clean, row) for clean, row in pairs]
    excess, excess_p = _excess(outcomes, items, system, number, condition, seed)
    return Cell(
        system=system,
        round=number,
        condition=condition,
        consistency=clustered_estimate(same, groups, seed),
        consistency_valid=clustered_estimate(
            [same[i] for i in valid], [groups[i] for i in valid], seed
        ),
        consistency_reused=None if reused is None else clustered_estimate(reused, groups, seed),
        excess=excess,
        excess_p=excess_p,
        shift=_of_known(shifts, groups, seed),
        score_change=_mean(_score_changes(pairs)),
    )


def _excess(
    outcomes: Outcomes,
    items: Mapping[str, JudgedItem],
    system: System,
    number: int,
    condition: str,
    seed: int,
) -> tuple[Estimate | None, float | None]:
    """Flips beyond those that reruns alone show, over the items that have both."""
    if condition == "rerun":
        return None, None
    kept: dict[str, list[bool]] = defaultdict(list)
    for clean, row in outcomes.paired(system, number, "rerun"):
        kept[row["item_id"]].append(consistent(clean, row))
    both = [
        (row["item_id"], kept[row["item_id"]], consistent(clean, row))
        for clean, row in outcomes.paired(system, number, condition)
        if row["item_id"] in kept
    ]
    excess = [float(np.mean(reruns)) - same for _, reruns, same in both]
    groups = [items[item].group for item, _, _ in both]
    p = mcnemar([reruns[0] for _, reruns, _ in both], [same for _, _, same in both])
    return clustered_estimate(excess, groups, seed), p


def _reused(
    outcomes: Outcomes,
    items: Mapping[str, JudgedItem],
    system: System,
    number: int,
    condition: str,
) -> list[float]:
    """Consistency as the paper's code has it: what does not parse is what the item before was."""
    clean = _stale([c for c, _ in outcomes.paired(system, number, condition)])
    changed = _stale([r for _, r in outcomes.paired(system, number, condition)])
    return [float(a == b != NOTHING) for a, b in zip(clean, changed, strict=True)]


def _stale(rows: Sequence[Row]) -> list[str]:
    winners: list[str] = []
    for row in rows:
        one, two = row["loose_1"], row["loose_2"]
        if one is None or two is None:
            winners.append(winners[-1] if winners else NOTHING)
            continue
        label = 0 if one == two else 1 if one > two else 2
        first = row["candidate_of_label_1"]
        winners.append("tie" if not label else str(first if label == 1 else 3 - first))
    return winners


def _score_changes(pairs: Sequence[tuple[Row, Row]]) -> list[float]:
    changes = []
    for clean, row in pairs:
        if clean["winner"] is None or row["winner"] is None or row["score_1"] is None:
            continue
        before, after = candidate_scores(clean), candidate_scores(row)
        changes += [abs(a - b) for a, b in zip(after, before, strict=True)]
    return changes


def candidate_scores(row: Row) -> tuple[float, float]:
    """The scores of candidates 1 and 2."""
    scores = row["score_1"], row["score_2"]
    return scores if row["candidate_of_label_1"] == 1 else (scores[1], scores[0])


@dataclass(frozen=True, kw_only=True)
class Health:
    """How many of a system's verdicts are none, ties, or cut off; shares of all verdicts."""

    n: int
    invalid: float
    tie: float
    cut_off: float


def health(rows: Sequence[Row]) -> Health | None:
    """None of no rows."""
    if not rows:
        return None
    return Health(
        n=len(rows),
        invalid=float(np.mean([row["winner"] is None for row in rows])),
        tie=float(np.mean([row["winner"] == "tie" for row in rows])),
        cut_off=float(np.mean([bool(row["cut_off"]) for row in rows])),
    )


def accuracy(rows: Sequence[Row], items: Mapping[str, JudgedItem], seed: int) -> Estimate | None:
    """Share of labelled items whose better candidate wins; a tie or no verdict is not right."""
    labelled = [row for row in rows if items[row["item_id"]].label is not None]
    right = [float(_wins(row, items[row["item_id"]].label or 0)) for row in labelled]
    return clustered_estimate(right, [items[r["item_id"]].group for r in labelled], seed)


def right_to_wrong(
    outcomes: Outcomes,
    items: Mapping[str, JudgedItem],
    system: System,
    number: int,
    condition: str,
    seed: int,
) -> Estimate | None:
    """Of the labelled items that the clean verdict has right, the share that turns wrong."""
    turned, groups = [], []
    for clean, row in outcomes.paired(system, number, condition):
        item = items[row["item_id"]]
        if item.label is not None and _wins(clean, item.label):
            turned.append(float(row["winner"] == str(3 - item.label)))
            groups.append(item.group)
    return clustered_estimate(turned, groups, seed)


def _of_known(values: Sequence[float | None], groups: Sequence[str], seed: int) -> Estimate | None:
    known = [(v, g) for v, g in zip(values, groups, strict=True) if v is not None]
    return clustered_estimate([v for v, _ in known], [g for _, g in known], seed)


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def mcnemar(before: Sequence[bool], after: Sequence[bool]) -> float | None:
    """Two-sided exact test that as many pairs went one way as the other; None without a change."""
    lost = sum(b and not a for b, a in zip(before, after, strict=True))
    gained = sum(a and not b for b, a in zip(before, after, strict=True))
    if lost + gained == 0:
        return None
    return float(stats.binomtest(lost, lost + gained).pvalue)


@dataclass(frozen=True, kw_only=True)
class TTest:
    """A t-test on cells, as the paper prints it (appendix A).

    Attributes:
        mean: difference of the means, first less second.
        low, high: its 95 % interval.
    """

    t: float
    df: float
    p: float
    mean: float
    low: float
    high: float


def welch(one: Sequence[float], other: Sequence[float]) -> TTest:
    """Two samples with variances of their own (the paper's Table 5)."""
    return _t_test(
        stats.ttest_ind(one, other, equal_var=False), float(np.mean(one) - np.mean(other))
    )


def paired_t(one: Sequence[float], other: Sequence[float]) -> TTest:
    """The same cells twice (the paper's Tables 6 to 13)."""
    return _t_test(stats.ttest_rel(one, other), float(np.mean(one) - np.mean(other)))


def _t_test(result: Any, mean: float) -> TTest:
    interval = result.confidence_interval(0.95)
    return TTest(
        t=float(result.statistic),
        df=float(result.df),
        p=float(result.pvalue),
        mean=mean,
        low=float(interval.low),
        high=float(interval.high),
    )
