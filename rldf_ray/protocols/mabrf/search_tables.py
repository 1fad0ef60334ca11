"""How searching went, and what search changes on the same items."""

from __future__ import annotations

from rldf_ray.figures.estimates import signed
from rldf_ray.protocols.mabrf.counts import search_counts
from rldf_ray.protocols.mabrf.items import MabrfItem
from rldf_ray.protocols.mabrf.measures import Row, paired, right
from rldf_ray.protocols.mabrf.results import Results
from rldf_ray.protocols.study import StudyTable

OVERLAP = (
    "A hit overlaps where it shares eight words running with the item's context or question. Where "
    "a list has no hit, or the summary of its hits is empty, it is as without search."
)


TOLD_MORE = (
    "With hits, a rewriter is also given a text by a model that saw context and question; without "
    "hits it is not. An arm that searches texts about something else tells what that alone does."
)


def searches_table(results: Results) -> StudyTable | None:
    """Queries written against searches made, and what they came to."""
    rows = [
        [
            name,
            f"{one.unparsed_query_lists} of {one.query_lists}",
            str(one.queries_written),
            str(one.searches),
            str(one.failed_searches),
            str(one.empty_searches),
            f"{one.lookups_without_hit} of {one.query_lists}",
            str(one.hits),
            str(one.overlapping_hits),
        ]
        for name, one in search_counts(results).items()
    ]
    if not rows:
        return None
    return StudyTable(
        name="searches",
        title="How searching went",
        columns=[
            "search",
            "query lists that did not parse",
            "queries written",
            "searches made",
            "failed",
            "empty",
            "lists without a hit",
            "hits",
            "of these, overlap the item",
        ],
        rows=rows,
        notes=[OVERLAP],
    )


def search_table(results: Results) -> StudyTable | None:
    """What search changes, on the same items."""
    base = results.settings.plain
    plain = results.arms.get(base) if base is not None else None
    if plain is None or len(results.arms) < 2:
        return None

    def accuracy(item: MabrfItem, row: Row) -> float | None:
        return None if item.label is None else float(right(item, row, 1))

    def flagged(item: MabrfItem, row: Row) -> float | None:
        return None if row["bias_1"] is None else float(row["bias_1"] > results.threshold)

    def relevancy(item: MabrfItem, row: Row) -> float | None:
        final: float | None = row["relevancy_1"]
        return final

    return StudyTable(
        name="search",
        title="With search less without it, on the same items",
        columns=["search", "accuracy", "flagged", "relevancy"],
        rows=[
            [
                arm,
                *(
                    signed(paired(results.items, plain, outcomes, of, results.seed))
                    for of in (accuracy, flagged, relevancy)
                ),
            ]
            for arm, outcomes in results.arms.items()
            if arm != base
        ],
        notes=[TOLD_MORE],
    )
