"""The paper's tables in form, and our own beside them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np

from rldf_ray.figures.estimates import shown, signed
from rldf_ray.protocols.judges.analysis import (
    Cell,
    Outcomes,
    System,
    TTest,
    accuracy,
    health,
    paired_t,
    right_to_wrong,
    welch,
)
from rldf_ray.protocols.judges.published import BENCHMARKS, BIASES, published
from rldf_ray.protocols.judges.views import JudgedItem
from rldf_ray.protocols.study import StudyTable

TITLES = {
    "clean": "clean",
    "rerun": "rerun",
    "position": "position",
    "position_labels": "position, labels kept",
    "verbosity": "verbosity",
    "bandwagon": "bandwagon",
    "cot": "chain of thought",
}
Cells = Mapping[tuple[System, int, str], Cell]


def arrow(now: float, before: float) -> str:
    """How a rate moved since the round before, at three decimals (a choice)."""
    change = round(now, 3) - round(before, 3)
    return "→" if abs(change) < 5e-4 else "↑" if change > 0 else "↓"


def perturbed(outcomes: Outcomes) -> list[str]:
    """The conditions that are held against the clean one, in the order of `TITLES`."""
    there = outcomes.conditions()
    return [name for name in TITLES if name in there and name != "clean"]


def debate_table(outcomes: Outcomes, cells: Cells) -> StudyTable:
    """Table 1 in form (and 3, 14, 16, where a critic or a set is theirs): pairs by round."""
    conditions = perturbed(outcomes)
    rows = []
    for system in outcomes.systems("debate"):
        for number in outcomes.rounds(system):
            row = [system.title, str(number)]
            for condition in conditions:
                row.append(_with_arrow(cells, system, number, condition))
            rows.append(row)
    return StudyTable(
        name="debate",
        title="Consistency of debating judges by round (form of Table 1)",
        columns=["judge / critic", "round", *(TITLES[c] for c in conditions)],
        rows=rows,
        notes=["Round 0 is the judge alone. Arrows are against the round before."],
    )


def _with_arrow(cells: Cells, system: System, number: int, condition: str) -> str:
    estimate = cells[system, number, condition].consistency
    text = shown(estimate)
    before = cells.get((system, number - 1, condition))
    if estimate is None or before is None or before.consistency is None:
        return text
    return f"{text} {arrow(estimate.value, before.consistency.value)}"


def meta_table(outcomes: Outcomes, cells: Cells) -> StudyTable:
    """Table 2 in form (and 4, 15, 17): the same model alone and above each pool."""
    conditions = perturbed(outcomes)
    above = outcomes.systems("meta")
    rows = []
    for judge in dict.fromkeys(system.judge for system in above):
        systems = [System(system="single", judge=judge), *(s for s in above if s.judge == judge)]
        for system in systems:
            estimates = [cells[system, 0, c].consistency for c in conditions]
            rows.append([judge, system.pool or "", system.mode or "judge", *map(shown, estimates)])
    return StudyTable(
        name="meta",
        title="Consistency of meta-judges (form of Table 2)",
        columns=["meta-judge", "pool", "mode", *(TITLES[c] for c in conditions)],
        rows=rows,
        notes=["Mode `judge` is the same model as a single judge, the baseline."],
    )


CLEAN_LOSER = (
    "Bandwagon: the crowd prefers what the judge itself held the worse when it was undisturbed, so "
    "that verdicts which change by themselves count as following it, too: a judge alone has no "
    "shift below 0."
)


def bias_table(cells: Cells, crowd: str) -> StudyTable:
    """What the paper lacks: flips beyond those of reruns, and where they go.

    Args:
        crowd: whom 90 % of people are said to prefer (`bandwagon.target`).
    """
    rows = []
    for (system, number, condition), cell in cells.items():
        if condition == "rerun":
            continue
        rows.append(
            [
                system.title,
                str(number),
                TITLES[condition],
                shown(cell.consistency),
                shown(cell.consistency_valid),
                shown(cell.consistency_reused),
                signed(cell.excess),
                "–" if cell.excess_p is None else f"{cell.excess_p:.3f}",
                signed(cell.shift),
            ]
        )
    return StudyTable(
        name="bias",
        title="Bias: flips beyond those of a rerun, and the way they go",
        columns=[
            "judge",
            "round",
            "condition",
            "consistency",
            "of valid verdicts",
            "as the paper's code counts",
            "excess flips",
            "p (McNemar)",
            "signed shift",
        ],
        rows=rows,
        notes=[
            "Excess flips: consistency of reruns less that of the condition, on the same items.",
            "Signed shift: what the pushed answer gains; for position, the first over the second.",
            "It is over items with two valid verdicts.",
            "p takes items as independent draws, those of one question too.",
            *([CLEAN_LOSER] if crowd == "clean_loser" and _of_a_crowd(cells) else []),
        ],
    )


def _of_a_crowd(cells: Cells) -> bool:
    return any(condition == "bandwagon" for _, _, condition in cells)


def health_table(outcomes: Outcomes) -> StudyTable:
    """How often a verdict is none, a tie or cut off, by condition: some lengthen what is read."""
    rows = []
    for system in outcomes.systems():
        for number, condition in product(outcomes.rounds(system), outcomes.conditions()):
            found = health(outcomes.rows(system, number, condition))
            if found is not None:
                shares = [f"{s:.3f}" for s in (found.invalid, found.tie, found.cut_off)]
                where = [system.title, str(number), TITLES[condition]]
                rows.append([*where, str(found.n), *shares])
    return StudyTable(
        name="verdicts",
        title="Verdicts that are none, ties, or cut off",
        columns=["judge", "round", "condition", "verdicts", "invalid", "ties", "cut off"],
        rows=rows,
    )


def accuracy_table(
    outcomes: Outcomes, items: Mapping[str, JudgedItem], seed: int
) -> StudyTable | None:
    """Accuracy against the items' labels; None where there are none."""
    if not any(item.label for item in items.values()):
        return None
    conditions = [c for c in TITLES if c in outcomes.conditions()]
    rows = []
    for system in outcomes.systems():
        for number in outcomes.rounds(system):
            row = [system.title, str(number)]
            for condition in conditions:
                right = accuracy(outcomes.rows(system, number, condition), items, seed)
                text = shown(right)
                if condition != "clean":
                    turned = right_to_wrong(outcomes, items, system, number, condition, seed)
                    text += "" if turned is None else f"; turned {turned.value:.3f}"
                row.append(text)
            rows.append(row)
    return StudyTable(
        name="accuracy",
        title="Accuracy on labelled items",
        columns=["judge", "round", *(TITLES[c] for c in conditions)],
        rows=rows,
        notes=["`turned`: of the items that are right when clean, the share that turns wrong."],
    )


def published_table(outcomes: Outcomes, cells: Cells) -> StudyTable | None:
    """Mean consistency of debates by round, beside the paper's; None without debates."""
    conditions = list(BIASES)
    debates = outcomes.systems("debate")
    if not debates:
        return None
    printed: dict[tuple[str, int, str], list[float]] = defaultdict(list)
    for rate in published():
        if rate.table == "1" and rate.round is not None:
            printed[rate.benchmark, rate.round, rate.bias].append(rate.value)
    rows = []
    for number in sorted({n for system in debates for n in outcomes.rounds(system)}):
        ours = ["ours", str(number)]
        for condition in conditions:
            here = [c.consistency for s in debates if (c := cells.get((s, number, condition)))]
            values = [e.value for e in here if e is not None]
            ours.append(f"{np.mean(values):.3f}" if values else "–")
        rows.append(ours)
        for benchmark in BENCHMARKS:
            means = [printed.get((benchmark, number, c)) for c in conditions]
            texts = ["–" if m is None else f"{np.mean(m):.3f}" for m in means]
            rows.append([f"published, {benchmark}", str(number), *texts])
    return StudyTable(
        name="beside-published",
        title="Mean consistency of debates by round, beside the paper's Table 1",
        columns=["", "round", *(TITLES[c] for c in conditions)],
        rows=rows,
        notes=["Models, items and prompts are others: only the form is the same."],
    )


def tests_table(outcomes: Outcomes, cells: Cells) -> StudyTable:
    """Tables 5 to 13 in form: t-tests on cells, which take a cell for an independent draw."""
    rows = [[what, name, *_test_cells(test)] for what, name, test in _tests(outcomes, cells)]
    return StudyTable(
        name="t-tests",
        title="t-tests on cells (form of Tables 5 to 13)",
        columns=["difference", "test", "mean", "95 % interval", "t", "df", "p"],
        rows=rows,
        notes=[
            "Cells that share a judge share its round 0, so these tests claim too much.",
            "The table of bias has tests on items.",
        ],
    )


def _tests(outcomes: Outcomes, cells: Cells) -> Iterator[tuple[str, str, TTest]]:
    conditions = [c for c in perturbed(outcomes) if c != "rerun"]
    debates = outcomes.systems("debate")
    last = max((n for s in debates for n in outcomes.rounds(s)), default=0)
    by_round = [_rates(cells, [(s, n) for s in debates], conditions) for n in range(last + 1)]
    for earlier, later in [*zip(range(last), range(1, last + 1), strict=False)]:
        yield from _both(f"round {earlier} - round {later}", by_round[earlier], by_round[later])
    above = outcomes.systems("meta")
    alone = [(System(system="single", judge=s.judge), 0) for s in above]
    yield from _both(
        "above a pool - alone",
        _rates(cells, [(s, 0) for s in above], conditions),
        _rates(cells, alone, conditions),
    )
    select, conclude = ([(s, 0) for s in above if s.mode == m] for m in ("select", "conclude"))
    if len(select) == len(conclude):
        yield from _both(
            "select - conclude",
            _rates(cells, select, conditions),
            _rates(cells, conclude, conditions),
        )


def _rates(
    cells: Cells, systems: Sequence[tuple[System, int]], conditions: Sequence[str]
) -> list[float | None]:
    found = (cells.get((system, number, c)) for system, number in systems for c in conditions)
    return [None if f is None or f.consistency is None else f.consistency.value for f in found]


def _both(
    what: str, one: Sequence[float | None], other: Sequence[float | None]
) -> Iterator[tuple[str, str, TTest]]:
    """Welch's and the paired test, where there are three cells with a value in both."""
    known = [(a, b) for a, b in zip(one, other, strict=True) if a is not None and b is not None]
    differ = {round(a - b, 12) for a, b in known}
    if len(known) < 3 or len(differ) < 2:
        return
    first, second = [a for a, _ in known], [b for _, b in known]
    yield what, "Welch", welch(first, second)
    yield what, "paired", paired_t(first, second)


def _test_cells(test: TTest) -> list[str]:
    interval = f"{test.low:+.4f} to {test.high:+.4f}"
    return [f"{test.mean:+.4f}", interval, f"{test.t:.3f}", f"{test.df:.1f}", f"{test.p:.4f}"]
