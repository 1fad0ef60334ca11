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

COSTS = ("calls", "prompt_tokens", "generated_tokens", "searches")
STOPS = ("clean at once", "clean", "max passes", "no verdict", "failed")
TIMES: tuple[tuple[When, str], ...] = ((0, "before"), (1, "after"))
SPREAD = (
    "Spread: how far the judge's second verdict on the same first steps is from its first, mean of "
    "absolute differences, of 9. `no verdict` is out of bias and relevancy."
)
BESIDE = (
    "ACC, judged: of the items with a verdict, as BIAS takes it. Solved: the answer is right and "
    "the judge finds no bias in the steps."
)
SHARED = (
    "Shared by all arms, and asked once: the solver's steps and answer, the verdicts on these "
    "steps, and the groups whose names the search agent looks for."
)
RELEVANCY = (
    "Relevancy: final less first; where no step changed it is 0 and not judged again. The first "
    "and the final answer are asked for by different prompts, so that one may change though no "
    "step did; of free answers that is not counted."
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
            "ACC, judged",
            "BIAS",
            "flagged",
            "mean bias",
            "relevancy",
            "s_AMB",
            "s_DIS",
            "solved",
        ],
        rows=rows,
        notes=[BESIDE],
    )


def _beside(
    arm: str, title: str, found: Measured, s_amb: float | None, s_dis: float | None
) -> list[str]:
    return [
        arm,
        title,
        shown(found.acc),
        shown(found.acc_judged),
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
                str(found.without_steps),
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
            "McNemar p, steps changed",
            "changed though no step did",
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
    """What an item took in each arm, and what all arms share."""
    spent = {
        arm: [sum(row[name] or 0 for row in outcomes.values()) for name in COSTS]
        for arm, outcomes in results.arms.items()
    }
    rows = [
        [arm, *(f"{cost / len(results.arms[arm]):.1f}" for cost in costs)]
        for arm, costs in spent.items()
    ]
    turns = results.tables.get("turns")
    if turns is not None and rows:
        whole = [turns.num_rows, *(sum(turns[name].to_pylist()) for name in COSTS[1:3])]
        shared = [all_ - sum(arms) for all_, *arms in zip(whole, *spent.values(), strict=False)]
        # Nothing is searched before an arm.
        rows.append(
            ["shared by all arms", *(f"{cost / len(results.first):.1f}" for cost in shared), "0.0"]
        )
    return StudyTable(
        name="cost",
        title="What an item took, mean",
        columns=["arm", "calls", "tokens read", "tokens written", "queries"],
        rows=rows,
        notes=[] if turns is None else [SHARED],
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
