"""The paper's tables in form, with intervals, and beside them what they leave out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scipy import stats

from rldf_ray.figures.estimates import shown, signed
from rldf_ray.protocols.mabrf.items import MabrfItem
from rldf_ray.protocols.mabrf.measures import (
    Measured,
    Row,
    When,
    answer_scores,
    changes,
    measured,
    paired,
    relevancy_change,
    right,
)
from rldf_ray.protocols.mabrf.results import Results
from rldf_ray.protocols.study import StudyTable

STOPS = ("clean at once", "clean", "max passes", "no verdict", "failed")
TIMES: tuple[tuple[When, str], ...] = ((0, "before"), (1, "after"))
CONDITIONS = {"ambig": "ambiguous", "disambig": "disambiguated"}
NOTE = (
    "BIAS is the paper's (1 - ACC) (2 n / m - 1), n of m items flagged by the judge: it lies "
    "within 1 - ACC of 0 and is -(1 - ACC) where nothing is flagged: no measure of bias by itself."
)
SPREAD = (
    "Spread: how far the judge's second verdict on the same first steps is from its first, mean of "
    "absolute differences, of 9. `no verdict` is out of bias and relevancy."
)
RELEVANCY = (
    "Relevancy: final less first; where no step changed it is 0 and not judged again. An answer "
    "that changed without a pass is sampling alone."
)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:+.3f}"


def health_table(results: Results) -> StudyTable:
    """How the loops ended, what did not parse, and how far the judge is from itself."""
    rows = []
    for arm, outcomes in results.arms.items():
        several = list(outcomes.values())
        stops = [str(sum(row["stop"] == stop for row in several)) for stop in STOPS]
        before = measured(results.items, outcomes, 0, results.threshold, results.seed)
        rows.append(
            [
                arm,
                str(len(several)),
                *stops,
                str(before.no_answer if before else 0),
                shown(before.flagged if before else None),
                shown(results.retest("bias", outcomes)),
                shown(results.retest("relevancy", outcomes)),
            ]
        )
    return StudyTable(
        name="health",
        title="How the loops ended, and whether the judge can be believed",
        columns=[
            "arm",
            "items",
            *STOPS,
            "no first answer",
            "flagged at first",
            "judge's spread, bias",
            "judge's spread, relevancy",
        ],
        rows=rows,
        notes=[SPREAD],
    )


def conditions_table(results: Results) -> StudyTable | None:
    """Table 3 in form: final accuracy and BIAS by context and arm."""
    rows = []
    for condition, title in CONDITIONS.items():
        items = [item for item in results.items if item.condition == condition]
        for arm, outcomes in results.arms.items():
            found = measured(items, outcomes, 1, results.threshold, results.seed)
            if found is not None:
                rows.append([title, arm, str(found.n), shown(found.acc), _number(found.bias)])
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
    groups: dict[str, list[MabrfItem]] = {}
    for item in results.items:
        groups.setdefault(item.category or "all", []).append(item)
    if len(groups) > 1:
        groups["overall"] = list(results.items)
    rows = []
    for name, items in groups.items():
        for arm, outcomes in results.arms.items():
            before, after = (
                measured(items, outcomes, when, results.threshold, results.seed) for when in (0, 1)
            )
            if before is None or after is None:
                continue
            rows.append(
                [
                    name,
                    arm,
                    str(before.n),
                    shown(before.acc),
                    shown(after.acc),
                    _number(before.bias),
                    _number(after.bias),
                ]
            )
    return StudyTable(
        name="categories",
        title="Before and after, by category (form of Table 5)",
        columns=["category", "search", "n", "ACC0", "ACC1", "BIAS0", "BIAS1"],
        rows=rows,
        notes=[NOTE],
    )


def beside_table(results: Results) -> StudyTable:
    """What says more than BIAS: flagged steps, BBQ's own scores of the answers, solved items."""
    rows = []
    for arm, outcomes in results.arms.items():
        for when, title in TIMES:
            found = measured(results.items, outcomes, when, results.threshold, results.seed)
            if found is None:
                continue
            s_amb, s_dis = answer_scores(results.items, outcomes, when)
            rows.append(_beside(arm, title, found, s_amb, s_dis))
    return StudyTable(
        name="beside",
        title="Flagged steps, BBQ's scores of the answers, and solved items",
        columns=[
            "search",
            "",
            "flagged",
            "mean bias",
            "relevancy",
            "s_AMB",
            "s_DIS",
            "solved",
        ],
        rows=rows,
        notes=["Solved: the answer is right and the judge finds no bias in the steps."],
    )


def _beside(
    arm: str, title: str, found: Measured, s_amb: float | None, s_dis: float | None
) -> list[str]:
    return [
        arm,
        title,
        shown(found.flagged),
        shown(found.mean_bias),
        shown(found.relevancy),
        _number(s_amb),
        _number(s_dis),
        shown(found.solved),
    ]


def changes_table(results: Results) -> StudyTable:
    """Answers fixed and worsened, and what the passes had to do with it."""
    rows = []
    for arm, outcomes in results.arms.items():
        found = changes(results.items, outcomes)
        rewritten = {i: row for i, row in outcomes.items() if row["passes"]}
        rows.append(
            [
                arm,
                str(found.fixed),
                str(found.worsened),
                "–" if found.p is None else f"{found.p:.3f}",
                str(found.without_pass),
                f"{len(rewritten)} of {len(outcomes)}",
                signed(results.mean(relevancy_change, outcomes)),
                signed(results.mean(relevancy_change, rewritten)),
                _correlation(outcomes),
            ]
        )
    return StudyTable(
        name="changes",
        title="What the loop changed",
        columns=[
            "search",
            "fixed",
            "worsened",
            "McNemar p",
            "changed without a pass",
            "rewritten",
            "relevancy",
            "relevancy, rewritten",
            "r(passes, final bias)",
        ],
        rows=rows,
        notes=[RELEVANCY],
    )


def _correlation(outcomes: Mapping[str, Row]) -> str:
    pairs = [(r["passes"], r["bias_1"]) for r in outcomes.values() if r["bias_1"] is not None]
    if len({p for p, _ in pairs}) < 2 or len({b for _, b in pairs}) < 2:
        return "–"
    return f"{stats.pearsonr([p for p, _ in pairs], [b for _, b in pairs]).statistic:.2f}"


def search_table(results: Results) -> StudyTable | None:
    """What search changes, on the same items, and how searching went."""
    base = results.settings.plain
    plain = results.arms.get(base) if base is not None else None
    if plain is None or len(results.arms) < 2:
        return None
    rows = []
    for arm, outcomes in results.arms.items():
        if arm == base:
            continue

        def accuracy(item: MabrfItem, row: Row) -> float | None:
            return None if item.label is None else float(right(item, row, 1))

        def flagged(item: MabrfItem, row: Row) -> float | None:
            return None if row["bias_1"] is None else float(row["bias_1"] > results.threshold)

        def relevancy(item: MabrfItem, row: Row) -> float | None:
            final: float | None = row["relevancy_1"]
            return final

        several = list(outcomes.values())
        passes = [row for row in results.passes if row["arm"] == arm]
        rows.append(
            [
                arm,
                *(
                    signed(paired(results.items, plain, outcomes, of, results.seed))
                    for of in (accuracy, flagged, relevancy)
                ),
                f"{sum(bool(row['search_empty']) for row in passes)} of {len(passes)}",
                str(sum(row["failed_searches"] or 0 for row in several)),
                (
                    f"{sum(row['overlapping_hits'] or 0 for row in several)} of "
                    f"{sum(row['hits'] or 0 for row in several)}"
                ),
            ]
        )
    return StudyTable(
        name="search",
        title="With search less without it, on the same items",
        columns=[
            "search",
            "accuracy",
            "flagged",
            "relevancy",
            "passes without a hit",
            "failed searches",
            "hits that overlap the item",
        ],
        rows=rows,
    )


def cost_table(results: Results) -> StudyTable:
    """What an item took in each arm, besides what all arms share."""
    rows = []
    for arm, outcomes in results.arms.items():
        number = len(outcomes)
        if number:
            rows.append(
                [
                    arm,
                    *(
                        f"{sum(row[name] or 0 for row in outcomes.values()) / number:.1f}"
                        for name in ("calls", "prompt_tokens", "generated_tokens", "searches")
                    ),
                ]
            )
    return StudyTable(
        name="cost",
        title="What an item took, mean",
        columns=["arm", "calls", "tokens read", "tokens written", "queries"],
        rows=rows,
    )


def all_tables(results: Results) -> Sequence[StudyTable | None]:
    """The tables of a study of the loop."""
    return [
        health_table(results),
        conditions_table(results),
        categories_table(results),
        beside_table(results),
        changes_table(results),
        search_table(results),
        cost_table(results),
    ]
