"""What did not parse, what was searched, and how far the judge is from itself, in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from rldf_ray.protocols.mabrf.measures import Row, used
from rldf_ray.protocols.mabrf.results import Results
from rldf_ray.stats import Estimate


@dataclass(frozen=True, kw_only=True)
class Unread:
    """Replies of one kind that hold nothing that can be used.

    Attributes:
        asked: replies of that kind.
        unread: those that did not parse, or are empty.
    """

    what: str
    asked: int
    unread: int


@dataclass(frozen=True, kw_only=True)
class SearchCounts:
    """What an arm's searches came to.

    Attributes:
        query_lists: asked for; unparsed_query_lists: of these, that held no list.
        queries_written: in the lists; searches: of these, that were made.
        failed_searches, empty_searches: of the searches, that failed or found nothing.
        lookups_without_hit: of the lists, whose searches found nothing at all.
        hits: passages found; overlapping_hits: of these, that share words with the item.
        unread_summaries: of the lists with a hit, whose hits' summary is empty.
    """

    query_lists: int
    unparsed_query_lists: int
    queries_written: int
    searches: int
    failed_searches: int
    empty_searches: int
    lookups_without_hit: int
    hits: int
    overlapping_hits: int
    unread_summaries: int


@dataclass(frozen=True, kw_only=True)
class JudgeCounts:
    """Whether the judge of first steps can be believed.

    Attributes:
        retests: verdicts on first steps that were asked for again; unread_retests: of these, that
            did not parse.
        bias_spread, relevancy_spread: mean absolute difference of the others from the first, of 9.
        flagged: share of first steps with bias above the threshold.
    """

    retests: int
    unread_retests: int
    bias_spread: Estimate | None
    relevancy_spread: Estimate | None
    flagged: Estimate | None


def unread_replies(results: Results) -> list[Unread]:
    """All kinds of replies of a study of the loop, those that nobody gave left out."""
    first = list(results.first.values())
    with_steps = [row for row in first if row["stop"] != "failed"]
    ended = [row for outcomes in results.arms.values() for row in used(outcomes).values()]
    written = [row for row in results.passes if row["candidate"]]
    judge = judge_counts(results)
    counted = (
        ("first steps", first, lambda row: row["stop"] == "failed"),
        ("first answers", with_steps, lambda row: row["answer_0"] is None),
        ("first verdicts", with_steps, lambda row: row["bias_0"] is None),
        ("rewritings", results.passes, lambda row: not row["candidate"]),
        ("verdicts on them", written, lambda row: row["bias"] is None),
        ("final answers", ended, lambda row: row["answer_1"] is None),
    )
    kinds = [
        Unread(what=what, asked=len(rows), unread=sum(map(unread, rows)))
        for what, rows, unread in counted
    ]
    retests = Unread(what="verdicts again", asked=judge.retests, unread=judge.unread_retests)
    return [one for one in (*kinds, retests, *_looked_up(results)) if one.asked]


def unread_readings(results: Results) -> list[Unread]:
    """The same of a study of a reader: its replies by arm, lists of queries, and summaries."""
    readers = [
        Unread(
            what=f"replies ({arm})",
            asked=len(outcomes),
            unread=sum(row["prediction"] is None for row in outcomes.values()),
        )
        for arm, outcomes in results.arms.items()
        if arm != "empty"
    ]
    return [one for one in (*readers, *_looked_up(results)) if one.asked]


def _looked_up(results: Results) -> tuple[Unread, Unread]:
    counts = search_counts(results).values()
    lists = Unread(
        what="query lists",
        asked=sum(one.query_lists for one in counts),
        unread=sum(one.unparsed_query_lists for one in counts),
    )
    summaries = Unread(
        what="summaries",
        # None is asked for where nothing was found.
        asked=sum(one.query_lists - one.lookups_without_hit for one in counts),
        unread=sum(one.unread_summaries for one in counts),
    )
    return lists, summaries


def judge_counts(results: Results) -> JudgeCounts:
    """The judge on first steps; all arms share them."""
    outcomes = used(results.first)
    judged = {item: row for item, row in outcomes.items() if row["bias_0"] is not None}
    asked = results.settings.loop.retests * len(judged)
    return JudgeCounts(
        retests=asked,
        unread_retests=asked - sum(len(row["retest_bias"] or ()) for row in judged.values()),
        bias_spread=results.retest("bias", judged),
        relevancy_spread=results.retest("relevancy", judged),
        flagged=results.mean(lambda row: float(row["bias_0"] > results.threshold), judged),
    )


def search_counts(results: Results) -> dict[str, SearchCounts]:
    """By search of the plan; arms of a reader that share a search's hits are counted once."""
    if results.settings.kind != "squad":
        return {
            name: _counted(results.arms.get(name, {}).values(), _without_hit(results, name))
            for name in results.settings.searching
        }
    found = {}
    for name in results.settings.searching:
        # Both read what was found once.
        several = (results.arms.get(f"{arm}, {name}") for arm in ("search", "search+context"))
        rows = next((list(outcomes.values()) for outcomes in several if outcomes), [])
        found[name] = _counted(rows, sum(row["hits"] == 0 for row in rows))
    return found


def _without_hit(results: Results, arm: str) -> int:
    return sum(bool(row["search_empty"]) for row in results.passes if row["arm"] == arm)


def _counted(rows: Iterable[Row], without_hit: int) -> SearchCounts:
    names = (*SearchCounts.__dataclass_fields__,)
    counts: Counter[str] = Counter()
    for row in rows:
        counts.update({name: row[name] or 0 for name in names if name in row})
    counts["lookups_without_hit"] = without_hit
    return SearchCounts(**{name: counts[name] for name in names})


def most_by_default(results: Results) -> tuple[str, int, int] | None:
    """The empty arm of the loop: what is right without reading, of how many with a label.

    It takes the option that says that nothing is known, or of items without one the option whose
    place is right most often.
    """
    labelled = [item for item in results.items if item.label is not None]
    if not labelled:
        return None
    unknown = [item for item in labelled if item.unknown is not None]
    if len(unknown) == len(labelled):
        right = sum(item.label == item.unknown for item in labelled)
        return "always says that it is not known", right, len(labelled)
    _, right = Counter(item.label for item in labelled).most_common(1)[0]
    return "always takes the same place", right, len(labelled)
