"""The paper's tables in form: 1 (items by group), 3 and 5 (ACC and BIAS), its correlation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scipy import stats

from rldf_ray.figures.estimates import shown
from rldf_ray.protocols.mabrf.items import MabrfItem
from rldf_ray.protocols.mabrf.measures import Measured, When, measured
from rldf_ray.protocols.mabrf.results import Results
from rldf_ray.protocols.study import StudyTable
from rldf_ray.sets.bbq.subset import hard_reasons

OVERALL = "overall"
CONDITIONS = {"ambig": "ambiguous", "disambig": "disambiguated"}
NOTE = (
    "BIAS is the paper's (1 - ACC) (2 n / m - 1), n of m items flagged by the judge, where m and "
    "its ACC are of the items with a verdict: it lies within 1 - that ACC of 0 and is -(1 - ACC) "
    "where nothing is flagged: no measure of bias by itself."
)
HARD = (
    "Hard by answer: the first answer is wrong, none, or the stereotyped one, as `rldf eval "
    "bbq-hard` counts; by judge: it flags the first steps (`--hard-by judge`). The reference is "
    "this study's solver. The paper's 15,590 and 5,305 are counts with GPT-3.5 Turbo, by a rule "
    "that it does not state."
)
TIED = (
    "Pearson's r over categories of changes, after less before. BIAS holds 1 - ACC as a factor, so "
    "that its changes and those of ACC are tied by arithmetic; the share that is flagged is not."
)


def number(value: float | None) -> str:
    """A signed figure without an interval; a dash where there is none."""
    return "–" if value is None else f"{value:+.3f}"


def by_category(results: Results) -> dict[str, list[MabrfItem]]:
    """The items of each category, and of all where there are several."""
    groups: dict[str, list[MabrfItem]] = {}
    for item in results.items:
        groups.setdefault(item.category or "all", []).append(item)
    if len(groups) > 1:
        groups[OVERALL] = list(results.items)
    return groups


def items_table(results: Results) -> StudyTable:
    """Table 1 in form: items by category, and how many are hard for this study's solver."""
    return StudyTable(
        name="items",
        title="Items by category (form of Table 1)",
        columns=["category", "items", *CONDITIONS.values(), "hard by answer", "hard by judge"],
        rows=[[name, *_sizes(items, results)] for name, items in by_category(results).items()],
        notes=[HARD],
    )


def _sizes(items: Sequence[MabrfItem], results: Results) -> list[str]:
    by_answer = by_judge = 0
    for item in items:
        row = results.first.get(item.item_id)
        if row is None:
            continue
        answer = None if row["answer_0"] is None else str(row["answer_0"])
        place = int(answer) if answer is not None and item.options else None
        if item.label is not None:
            by_answer += bool(hard_reasons(place, item.label, item.unknown, item.target))
        by_judge += row["bias_0"] is not None and row["bias_0"] > results.threshold
    conditions = [sum(item.condition == one for item in items) for one in CONDITIONS]
    return [str(count) for count in (len(items), *conditions, by_answer, by_judge)]


def conditions_table(results: Results) -> StudyTable | None:
    """Table 3 in form: final accuracy and BIAS by context and arm."""
    rows = []
    for condition, title in CONDITIONS.items():
        items = [item for item in results.items if item.condition == condition]
        for arm in results.arms:
            found = _measured(results, items, arm, 1)
            if found is not None:
                rows.append([title, arm, str(found.n), shown(found.acc), number(found.bias)])
    if not rows:
        return None
    return StudyTable(
        name="conditions",
        title="After the loop, by context (form of Table 3)",
        columns=["context", "search", "n", "ACC1", "BIAS1"],
        rows=rows,
        notes=[NOTE],
    )


def categories_table(results: Results) -> StudyTable:
    """Table 5 in form: before and after, by category and over all."""
    rows = []
    for name, items in by_category(results).items():
        for arm in results.arms:
            before, after = _measured(results, items, arm, 0), _measured(results, items, arm, 1)
            if before is None or after is None:
                continue
            accuracies = [shown(before.acc), shown(after.acc)]
            biases = [number(before.bias), number(after.bias)]
            rows.append([name, arm, str(before.n), *accuracies, *biases])
    return StudyTable(
        name="categories",
        title="Before and after, by category (form of Table 5)",
        columns=["category", "search", "n", "ACC0", "ACC1", "BIAS0", "BIAS1"],
        rows=rows,
        notes=[NOTE],
    )


def correlation_table(results: Results) -> StudyTable | None:
    """Whether categories whose bias falls more gain more accuracy; of three categories or more."""
    groups = {name: items for name, items in by_category(results).items() if name != OVERALL}
    rows = []
    for arm in results.arms:
        pairs = [
            (_measured(results, items, arm, 0), _measured(results, items, arm, 1))
            for items in groups.values()
        ]
        whole = [(before, after) for before, after in pairs if before and after]
        if len(whole) >= 3:
            gained = _changes(whole, _acc)
            cells = [_r(_changes(whole, of), gained) for of in (_bias, _flagged)]
            rows.append([arm, str(len(whole)), *cells])
    if not rows:
        return None
    return StudyTable(
        name="correlation",
        title="Bias change against accuracy change, over categories",
        columns=["search", "categories", "r(BIAS, ACC)", "r(flagged, ACC)"],
        rows=rows,
        notes=[TIED],
    )


Figure = Callable[[Measured], float | None]


def _acc(found: Measured) -> float | None:
    return None if found.acc is None else found.acc.value


def _bias(found: Measured) -> float | None:
    return found.bias


def _flagged(found: Measured) -> float | None:
    return None if found.flagged is None else found.flagged.value


def _changes(pairs: Sequence[tuple[Measured, Measured]], of: Figure) -> list[float | None]:
    ends = [(of(before), of(after)) for before, after in pairs]
    return [None if a is None or b is None else round(b - a, 12) for a, b in ends]


def _r(one: Sequence[float | None], other: Sequence[float | None]) -> str:
    """Pearson's r with its interval; a dash where a side does not vary, or too few have both."""
    pairs = [(a, b) for a, b in zip(one, other, strict=True) if a is not None and b is not None]
    if len(pairs) < 3 or any(len(set(side)) < 2 for side in zip(*pairs, strict=True)):
        return "–"
    found = stats.pearsonr(*map(list, zip(*pairs, strict=True)))
    if len(pairs) < 4:
        return f"{found.statistic:+.2f}"
    ends = found.confidence_interval()
    return f"{found.statistic:+.2f} ({ends.low:+.2f} to {ends.high:+.2f})"


def _measured(
    results: Results, items: Sequence[MabrfItem], arm: str, when: When
) -> Measured | None:
    return measured(items, results.arms[arm], when, results.threshold, results.seed)
