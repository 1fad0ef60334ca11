"""Table 4 in form: exact match and F1 of the reader, arm by arm, against the empty arm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rldf_ray.figures.estimates import shown, signed
from rldf_ray.protocols.mabrf.counts import unread_readings
from rldf_ray.protocols.mabrf.items import MabrfItem
from rldf_ray.protocols.mabrf.measures import Row, paired
from rldf_ray.protocols.mabrf.records import TOLD
from rldf_ray.protocols.mabrf.results import Results
from rldf_ray.protocols.mabrf.search_tables import searches_table
from rldf_ray.protocols.mabrf.squad.metrics import exact, f1
from rldf_ray.protocols.mabrf.tables import unread_table
from rldf_ray.protocols.study import StudyTable
from rldf_ray.stats import Estimate, clustered_estimate

PLACES = ("the queries", "what was shown of the hits", "what was said of them")
LEAK = (
    "Of the questions with an answer that they do not hold themselves. An answer in the queries is "
    "shown to whoever says what was found: where they are written from the paragraph, the arm "
    "without it is told of it all the same (settings.squad.queries_from)."
)
NOTE = (
    "A reply that does not parse is wrong, and counted as failed; it is not read as no answer. "
    "`empty` always answers nothing: what is not above it shows no reading."
)


def _exact(item: MabrfItem, row: Row) -> float:
    """0 to 100; 0 of a reply that is none, as of a wrong one."""
    return 0.0 if row["prediction"] is None else 100 * exact(row["prediction"], item.golds)


def _f1(item: MabrfItem, row: Row) -> float:
    """0 to 100; 0 of a reply that is none, as of a wrong one."""
    return 0.0 if row["prediction"] is None else 100 * f1(row["prediction"], item.golds)


def reader_table(results: Results) -> StudyTable:
    """EM and F1 of every arm, over all questions, those with an answer, and those without."""
    rows = []
    for arm, outcomes in results.arms.items():
        kinds = {
            "all": list(results.items),
            "HasAns": [item for item in results.items if item.golds],
            "NoAns": [item for item in results.items if not item.golds],
        }
        cells = [
            shown(_mean(items, outcomes, of, results.seed))
            for items in kinds.values()
            for of in (_exact, _f1)
        ]
        failed = sum(row["prediction"] is None for row in outcomes.values())
        rows.append([arm, str(len(outcomes)), str(failed), *cells])
    has = sum(bool(item.golds) for item in results.items)
    return StudyTable(
        name="reader",
        title="SQuAD v2 by what the reader is given (form of Table 4)",
        columns=[
            "arm",
            "questions",
            "failed",
            "EM",
            "F1",
            "HasAns EM",
            "HasAns F1",
            "NoAns EM",
            "NoAns F1",
        ],
        rows=rows,
        notes=[f"{has} questions have an answer, {len(results.items) - has} have none. {NOTE}"],
    )


def _mean(
    items: Sequence[MabrfItem],
    outcomes: Mapping[str, Row],
    of: Callable[[MabrfItem, Row], float],
    seed: int,
) -> Estimate | None:
    there = [item for item in items if item.item_id in outcomes]
    values = [of(item, outcomes[item.item_id]) for item in there]
    return clustered_estimate(values, [item.group for item in there], seed)


def reader_differences(results: Results) -> StudyTable:
    """Every arm less the one before it is read against: `context`, and `empty`."""
    rows = []
    for base in ("empty", "context"):
        if base not in results.arms:
            continue
        for arm, outcomes in results.arms.items():
            if arm in (base, "empty"):
                continue
            rows.append(
                [
                    f"{arm} - {base}",
                    *(
                        signed(
                            paired(results.items, results.arms[base], outcomes, of, results.seed)
                        )
                        for of in (_exact, _f1)
                    ),
                ]
            )
    return StudyTable(
        name="reader-differences",
        title="Differences on the same questions, points",
        columns=["arms", "EM", "F1"],
        rows=rows,
        notes=["Intervals resample articles."],
    )


def retrieval_table(results: Results) -> StudyTable | None:
    """How often the item's own paragraph is among the hits."""
    rows = []
    for arm, outcomes in results.arms.items():
        searched = {i: row for i, row in outcomes.items() if row["gold_found"] is not None}
        if searched:
            found = results.mean(lambda row: float(row["gold_found"]), searched)
            rows.append(
                [
                    arm,
                    str(len(searched)),
                    shown(found),
                    *(_told(results, arm, name) for name in TOLD),
                ]
            )
    if not rows:
        return None
    return StudyTable(
        name="retrieval",
        title="Whether a question's own paragraph is found",
        columns=[
            "arm",
            "questions",
            "own paragraph among the hits",
            *(f"answer in {place}" for place in PLACES),
        ],
        rows=rows,
        notes=[LEAK],
    )


def _told(results: Results, arm: str, name: str) -> str:
    """Share of the questions whose answer stands there, of those that have one to be told."""
    rows = {i: row for i, row in results.arms[arm].items() if row[name] is not None}
    found = results.mean(lambda row: float(row[name]), rows)
    return f"{shown(found)} of {len(rows)}" if rows else "\u2013"


def questions_table(results: Results) -> StudyTable:
    """Table 2's place: what is asked, by whether and by how much there is to answer.

    The paper gives the answer types of SQuAD 1, which the data do not name.
    """
    words = [len(item.golds[0].split()) if item.golds else 0 for item in results.items]
    kinds = {
        "no answer": [0],
        "an answer of 1 word": [1],
        "of 2 words": [2],
        "of 3 to 5 words": [3, 4, 5],
    }
    counts = {name: sum(number in sizes for number in words) for name, sizes in kinds.items()}
    counts["of 6 words or more"] = sum(number >= 6 for number in words)
    return StudyTable(
        name="questions",
        title="Questions by the length of their first answer (in place of Table 2)",
        columns=["questions with", "number", "%"],
        rows=[
            [name, str(count), f"{100 * count / len(words):.1f}"] for name, count in counts.items()
        ],
    )


def reader_tables(results: Results) -> list[StudyTable]:
    """The tables of a study of a reader that have rows."""
    made = [
        unread_table(unread_readings(results)),
        searches_table(results),
        questions_table(results),
        reader_table(results),
        reader_differences(results),
        retrieval_table(results),
    ]
    return [table for table in made if table is not None and table.rows]
