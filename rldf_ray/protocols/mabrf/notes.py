"""The first sentences of a report: whether its figures can be believed."""

from __future__ import annotations

from collections.abc import Sequence

from rldf_ray.figures.estimates import shown
from rldf_ray.protocols.mabrf.counts import (
    Unread,
    judge_counts,
    most_by_default,
    search_counts,
    unread_readings,
    unread_replies,
)
from rldf_ray.protocols.mabrf.measures import changes, measured
from rldf_ray.protocols.mabrf.results import Results
from rldf_ray.protocols.mabrf.squad.tables import reader_differences


def loop_notes(results: Results) -> list[str]:
    """Format failures, the judge's spread, what it flags, the empty arm; then searches and arms."""
    notes = [_unread(unread_replies(results)), _spread(results), _flagged(results)]
    empty = most_by_default(results)
    if empty is not None:
        what, right, of = empty
        notes.append(
            f"The empty arm: an answer that {what} is right on {right} of {of} items "
            f"({right / of:.3f}); what is not above it shows no reading."
        )
    return [*notes, *_left_out(results), *_searches(results), *_changes(results)]


def reader_notes(results: Results) -> list[str]:
    """Format failures and the empty arm; then searches, and what they are worth to the reader."""
    has = sum(bool(item.golds) for item in results.items)
    nothing = 100 * (1 - has / len(results.items))
    empty = (
        f"The empty arm: {len(results.items)} questions of "
        f"{len({item.group for item in results.items})} articles, {has} with an answer; one that "
        f"always answers nothing has {nothing:.1f} EM."
    )
    notes = [_unread(unread_readings(results)), empty]
    differences = reader_differences(results).rows
    worth = [f"{arms}: {em} EM, {f} F1." for arms, em, f in differences if "search" in arms]
    return [*notes, *_left_out(results), *_searches(results), *worth]


def _unread(kinds: Sequence[Unread]) -> str:
    if not any(one.unread for one in kinds):
        return f"Format failures: none of {sum(one.asked for one in kinds)} replies."
    parts = [f"{one.unread} of {one.asked} {one.what}" for one in kinds if one.unread]
    asked, unread = (sum(getattr(one, name) for one in kinds) for name in ("asked", "unread"))
    return f"Format failures: {unread} of {asked} replies did not parse: {', '.join(parts)}."


def _spread(results: Results) -> str:
    found = judge_counts(results)
    if not found.retests:
        return "The judge's retest spread is not known: no first steps were judged again."
    unread = f", {found.unread_retests} of which did not parse" if found.unread_retests else ""
    return (
        f"The judge's retest spread: on the same first steps, in {found.retests} further verdicts"
        f"{unread}, it differs from itself by {shown(found.bias_spread)} in bias and "
        f"{shown(found.relevancy_spread)} in relevancy, of 9."
    )


def _flagged(results: Results) -> str:
    after = [
        f"{shown(found.flagged)} ({arm})"
        for arm, outcomes in results.arms.items()
        if (found := measured(results.items, outcomes, 1, results.threshold, results.seed))
    ]
    return (
        f"The judge flags {shown(judge_counts(results).flagged)} of first steps (bias above "
        f"{results.threshold}), and of the last {', '.join(after) or 'none, as there are none'}: "
        "by the verdicts that rewritings were chosen by, so that the share cannot rise."
    )


def _left_out(results: Results) -> list[str]:
    if not results.left_out:
        return []
    counted = "; ".join(f"{number} as {reason}" for reason, number in results.left_out.items())
    return [f"Items of the data left out: {counted}."]


def _searches(results: Results) -> list[str]:
    return [
        f"{name}: {one.queries_written} queries were written and {one.searches} searches made; "
        f"{one.failed_searches} failed, {one.empty_searches} found nothing; "
        f"{one.unparsed_query_lists} of {one.query_lists} query lists did not parse."
        for name, one in search_counts(results).items()
    ]


def _changes(results: Results) -> list[str]:
    notes = []
    for arm, outcomes in results.arms.items():
        if not any(row["stop"] != "failed" for row in outcomes.values()):
            notes.append(f"{arm}: no item was answered.")
            continue
        found = changes(results.items, outcomes)
        shown_not = found.p is None or found.p > 0.05
        notes.append(
            f"{arm}: of the answers {found.fixed} were fixed, {found.worsened} worsened, "
            f"{found.without_steps} changed though no step did"
            f"{'; that the loop changes accuracy is not shown' if shown_not else ''}."
        )
    return notes
