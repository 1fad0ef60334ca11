"""The paper's tables in form, with intervals, and beside them what they leave out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scipy import stats

from rldf_ray.figures.estimates import shown, signed
from rldf_ray.protocols.mabrf.counts import Unread, unread_replies
from rldf_ray.protocols.mabrf.measures import (
    Measured,
    Row,
    When,
    answer_scores,
    changes,
    measured,
    relevancy_change,
)
from rldf_ray.protocols.mabrf.paper_tables import (
    categories_table,
    conditions_table,
    correlation_table,
    items_table,
    number,
)
from rldf_ray.protocols.mabrf.results import Results
from rldf_ray.protocols.mabrf.search_tables import search_table, searches_table
from rldf_ray.protocols.study import StudyTable

STOPS = ("clean at once", "clean", "max passes", "no verdict", "failed")
TIMES: tuple[tuple[When, str], ...] = ((0, "before"), (1, "after"))
SPREAD = (
    "Spread: how far the judge's second verdict on the same first steps is from its first, mean of "
    "absolute differences, of 9. `no verdict` is out of bias and relevancy."
)
RELEVANCY = (
    "Relevancy: final less first; where no step changed it is 0 and not judged again. An answer "
    "that changed without a pass is sampling alone."
)


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


def unread_table(kinds: Sequence[Unread]) -> StudyTable:
    """Format failures: replies of each kind that hold nothing that can be used."""
    return StudyTable(
        name="unread",
        title="Replies that did not parse, or are empty",
        columns=["replies", "asked", "unread"],
        rows=[[one.what, str(one.asked), str(one.unread)] for one in kinds],
    )


def beside_table(results: Results) -> StudyTable:
    """BIAS beside what says more: flagged steps, BBQ's own scores of the answers, solved items."""
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
        title="BIAS beside flagged steps, BBQ's scores of the answers, and solved items",
        columns=[
            "search",
            "",
            "ACC",
            "BIAS",
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
        shown(found.acc),
        number(found.bias),
        shown(found.flagged),
        shown(found.mean_bias),
        shown(found.relevancy),
        number(s_amb),
        number(s_dis),
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


def loop_tables(results: Results) -> list[StudyTable]:
    """The tables of a study of the loop that have rows."""
    made = [
        health_table(results),
        unread_table(unread_replies(results)),
        searches_table(results),
        items_table(results),
        conditions_table(results),
        categories_table(results),
        correlation_table(results),
        beside_table(results),
        changes_table(results),
        search_table(results),
        cost_table(results),
    ]
    return [table for table in made if table is not None and table.rows]
