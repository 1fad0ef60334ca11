"""Rows of a study's tables.

outcomes    one an item and arm: answers, verdicts, what it took; of SQuAD, the prediction
passes      one a rewriting: what was looked up, the candidate, its verdict
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from rldf_ray.protocols.mabrf.agents import step_count
from rldf_ray.protocols.mabrf.evidence import Evidence, overlaps
from rldf_ray.protocols.mabrf.items import MabrfItem
from rldf_ray.protocols.mabrf.loop import Mitigated, Solved
from rldf_ray.protocols.mabrf.verdict import Verdict
from rldf_ray.protocols.study import StudyTurn

TOLD = ("answer_in_queries", "answer_in_hits", "answer_in_summary")
"""Where a question's answer may stand; earlier versions did not look."""

OUTCOMES = pa.schema(
    [
        pa.field("item_id", pa.string()),
        pa.field("arm", pa.string()),
        pa.field("stop", pa.string()),
        pa.field("passes", pa.int16()),
        pa.field("accepted", pa.int16()),
        # As given; of an item with options the number of one.
        pa.field("answer_0", pa.string()),
        pa.field("answer_1", pa.string()),
        # Null where a verdict did not parse.
        pa.field("bias_0", pa.int8()),
        pa.field("bias_1", pa.int8()),
        pa.field("relevancy_0", pa.int8()),
        pa.field("relevancy_1", pa.int8()),
        pa.field("steps_0", pa.string()),
        pa.field("steps_1", pa.string()),
        # The judge's verdicts on the same first steps, asked again.
        pa.field("retest_bias", pa.list_(pa.int8())),
        pa.field("retest_relevancy", pa.list_(pa.int8())),
        # Of SQuAD: "" is "no answer", null is a reply that is none.
        pa.field("prediction", pa.string()),
        pa.field("gold_found", pa.bool_()),
        # Whether an answer stands there that is not in the question; null where there is none.
        # Hits: what of them the summary was made of, which is a part of each.
        *(pa.field(name, pa.bool_()) for name in TOLD),
        # 0 where nothing is looked up. A list is asked for once a rewriting, or a question.
        pa.field("query_lists", pa.int16()),
        pa.field("unparsed_query_lists", pa.int16()),
        pa.field("queries_written", pa.int16()),
        # Made, those that failed or found nothing included.
        pa.field("searches", pa.int16()),
        pa.field("failed_searches", pa.int16()),
        pa.field("empty_searches", pa.int16()),
        pa.field("hits", pa.int16()),
        pa.field("overlapping_hits", pa.int16()),
        # Of the lists that have hits.
        pa.field("unread_summaries", pa.int16()),
        # What the arm took besides what all arms share.
        pa.field("calls", pa.int32()),
        pa.field("prompt_tokens", pa.int64()),
        pa.field("generated_tokens", pa.int64()),
    ]
)

PASSES = pa.schema(
    [
        pa.field("item_id", pa.string()),
        pa.field("arm", pa.string()),
        pa.field("number", pa.int16()),
        pa.field("queries", pa.list_(pa.string())),
        pa.field("searched", pa.list_(pa.string())),
        pa.field("titles", pa.list_(pa.string())),
        pa.field("summary", pa.string()),
        pa.field("search_empty", pa.bool_()),
        # There were hits, and their summary is empty.
        pa.field("summary_unread", pa.bool_()),
        pa.field("candidate", pa.string()),
        pa.field("steps_before", pa.int16()),
        pa.field("steps_after", pa.int16()),
        pa.field("bias", pa.int8()),
        pa.field("bias_reason", pa.string()),
        pa.field("relevancy", pa.int8()),
        pa.field("relevancy_reason", pa.string()),
        pa.field("accepted", pa.bool_()),
    ]
)


def loop_row(
    item: MabrfItem,
    arm: str,
    solved: Solved,
    found: Mitigated,
    retests: Sequence[Verdict | None],
    spent: Sequence[StudyTurn],
) -> dict[str, Any]:
    """The outcome of the loop in one arm."""
    evidence = [one.evidence for one in found.passes if one.evidence is not None]
    again = [one for one in retests if one is not None]
    return {
        **dict.fromkeys(OUTCOMES.names),
        "item_id": item.item_id,
        "arm": arm,
        "stop": found.stop,
        "passes": len(found.passes),
        "accepted": sum(one.accepted for one in found.passes),
        "answer_0": solved.answer,
        "answer_1": found.answer,
        "bias_0": solved.verdict and solved.verdict.bias,
        "bias_1": found.verdict and found.verdict.bias,
        "relevancy_0": solved.verdict and solved.verdict.relevancy,
        "relevancy_1": found.verdict and found.verdict.relevancy,
        "steps_0": solved.steps,
        "steps_1": found.steps,
        "retest_bias": [one.bias for one in again],
        "retest_relevancy": [one.relevancy for one in again],
        **looked_up(item, evidence),
        **cost(spent),
    }


def looked_up(item: MabrfItem, evidence: Sequence[Evidence]) -> dict[str, Any]:
    """What was written and searched, what it came to, and whether hits hold the item itself."""
    hits = [one.hit for several in evidence for one in several.found]
    text = f"{item.context} {item.question}"
    return {
        "query_lists": len(evidence),
        "unparsed_query_lists": sum(not one.parsed for one in evidence),
        "queries_written": sum(len(one.queries) for one in evidence),
        "searches": sum(len(one.searched) for one in evidence),
        "failed_searches": sum(len(one.failed) for one in evidence),
        "empty_searches": sum(len(one.empty_queries) for one in evidence),
        "hits": len(hits),
        "overlapping_hits": sum(overlaps(hit, text) for hit in hits),
        "unread_summaries": sum(one.unread for one in evidence),
    }


def cost(spent: Sequence[StudyTurn]) -> dict[str, Any]:
    """Calls and tokens."""
    return {
        "calls": len(spent),
        "prompt_tokens": sum(turn.prompt_tokens for turn in spent),
        "generated_tokens": sum(turn.generated_tokens for turn in spent),
    }


def pass_rows(item_id: str, arm: str, solved: Solved, found: Mitigated) -> list[dict[str, Any]]:
    """The rewritings of an arm."""
    rows, best = [], solved.steps
    for one in found.passes:
        evidence, verdict = one.evidence, one.verdict
        rows.append(
            {
                "item_id": item_id,
                "arm": arm,
                "number": one.number,
                "queries": list(evidence.queries) if evidence else [],
                "searched": list(evidence.searched) if evidence else [],
                "titles": [f.hit.title for f in evidence.found] if evidence else [],
                "summary": evidence.summary if evidence else None,
                "search_empty": evidence.empty if evidence else None,
                "summary_unread": evidence.unread if evidence else None,
                "candidate": one.candidate,
                "steps_before": step_count(best),
                "steps_after": step_count(one.candidate),
                "bias": verdict and verdict.bias,
                "bias_reason": verdict and verdict.bias_reason,
                "relevancy": verdict and verdict.relevancy,
                "relevancy_reason": verdict and verdict.relevancy_reason,
                "accepted": one.accepted,
            }
        )
        if one.accepted:
            best = one.candidate
    return rows
