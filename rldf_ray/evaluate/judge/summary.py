"""A judge's scores of each method: means with intervals, failures, preferences in both orders."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from rldf_ray.evaluate.judge.judge import Compared, Judged, Judgement
from rldf_ray.evaluate.judge.rubrics import Rubric
from rldf_ray.evaluate.long_format import ALL, LONG_SCHEMA, Value, long_table
from rldf_ray.records import LabelSource
from rldf_ray.stats import Estimate, clustered_estimate

JUDGED_SCHEMA = pa.schema(
    [
        ("method", pa.string()),
        ("repeat", pa.int64()),
        ("seed", pa.int64()),
        ("prompt_id", pa.string()),
        ("bias_type", pa.string()),
        ("answer_id", pa.string()),
        ("prompt", pa.string()),
        ("answer", pa.string()),
        ("measure", pa.string()),
        ("score", pa.float64()),
        ("score_source", pa.string()),
        ("said_score", pa.float64()),
        ("expected_score", pa.float64()),
        ("failure", pa.string()),
        ("judge_model", pa.string()),
        ("judge_revision", pa.string()),
    ]
)
COMPARED_SCHEMA = pa.schema(
    [
        ("measure", pa.string()),
        ("prompt_id", pa.string()),
        ("bias_type", pa.string()),
        ("repeat", pa.int64()),
        ("first", pa.string()),
        ("second", pa.string()),
        ("said_first", pa.bool_()),
        ("first_probability", pa.float64()),
        ("failure", pa.string()),
    ]
)


def score_source(judged: Sequence[Judged]) -> LabelSource:
    """ "expected" where every judgement with a score has an expected one, else "said".

    One of the two for everything, as their means are not comparable. A judgement with neither, such
    as a refusal, counts for neither.
    """
    scored = [
        j.judgement.expected is not None
        for j in judged
        if j.judgement.expected is not None or j.judgement.said is not None
    ]
    return "expected" if scored and all(scored) else "said"


def score_of(judgement: Judgement, source: LabelSource) -> float | None:
    return judgement.expected if source == "expected" else judgement.said


def judged_table(judged: Sequence[Judged], source: LabelSource) -> pa.Table:
    """One row an answer and measure; columns of JUDGED_SCHEMA."""
    rows = [
        {
            "method": j.answer.method,
            "repeat": j.answer.repeat,
            "seed": j.answer.seed,
            "prompt_id": j.answer.prompt_id,
            "bias_type": j.answer.bias_type,
            "answer_id": j.answer.answer_id,
            "prompt": j.answer.prompt,
            "answer": j.answer.answer,
            "measure": j.judgement.measure,
            "score": score_of(j.judgement, source),
            "score_source": source,
            "said_score": j.judgement.said,
            "expected_score": j.judgement.expected,
            "failure": j.judgement.failure,
            "judge_model": j.judgement.model,
            "judge_revision": j.judgement.revision,
        }
        for j in judged
    ]
    return pa.Table.from_pylist(rows, schema=JUDGED_SCHEMA)


def answer_values(judged: Sequence[Judged], source: LabelSource) -> list[Value]:
    """Mean of each measure, of every bias type and of all, for one method's answers in a repeat."""
    scores: dict[tuple[str, str], list[float | None]] = defaultdict(list)
    for j in judged:
        score = score_of(j.judgement, source)
        for group in (j.answer.bias_type, ALL):
            scores[group, j.judgement.measure].append(score)
    return [
        Value(
            group, measure, _mean(known := [s for s in group_scores if s is not None]), len(known)
        )
        for (group, measure), group_scores in sorted(scores.items())
    ]


def long_judged(judged: Sequence[Judged], source: LabelSource) -> pa.Table:
    """`answer_values` of every method and repeat in one table; columns of LONG_SCHEMA."""
    runs: dict[tuple[str, int, int], list[Judged]] = defaultdict(list)
    for j in judged:
        runs[j.answer.method, j.answer.repeat, j.answer.seed].append(j)
    tables = [
        long_table(method, repeat, seed, "answers", answer_values(of_run, source))
        for (method, repeat, seed), of_run in sorted(runs.items())
    ]
    return pa.concat_tables(tables) if tables else LONG_SCHEMA.empty_table()


def summary_of(judged: Sequence[Judged], source: LabelSource, seed: int) -> dict[str, Any]:
    """Method -> group -> measure -> mean with its interval, and what has no score."""
    by_method: dict[str, Any] = {}
    for method in dict.fromkeys(j.answer.method for j in judged):
        mine = [j for j in judged if j.answer.method == method]
        groups = {ALL: mine} | {
            name: [j for j in mine if j.answer.bias_type == name]
            for name in sorted({j.answer.bias_type for j in mine})
        }
        by_method[method] = {
            group: {
                measure: _estimate([j for j in of if j.judgement.measure == measure], source, seed)
                for measure in dict.fromkeys(j.judgement.measure for j in of)
            }
            for group, of in groups.items()
        }
    return by_method


def measures_of(rubrics: Sequence[Rubric]) -> dict[str, Any]:
    """Measure -> its title and which way is better."""
    return {one.name: {"title": one.title, "better": one.better} for one in rubrics}


def failures_of(judged: Sequence[Judged]) -> dict[str, Any]:
    """Judgements that did not parse, with a few of the texts."""
    failed = [j.judgement.failure for j in judged if j.judgement.failure is not None]
    return {
        "number": len(failed),
        "of": len(judged),
        "rate": len(failed) / len(judged) if judged else None,
        "examples": sorted(set(failed))[:5],
    }


def preferences(compared: Sequence[Compared], method: str, seed: int) -> dict[str, Any]:
    """How often each other method's answer is preferred to `method`'s, over both orders.

    Returns:
        other method -> measure -> `preferred` (mean over pairs: 1 where both orders preferred the
        other method, 0 where both preferred `method`, 0.5 where the order decided), with its
        interval; `expected` (the same from the judge's probabilities, where all choices have them);
        `order_decided` (share of the pairs); `first` (share of all choices that took the first
        answer shown; 0.5 without an effect of the order); `failures` (pairs left out of
        `preferred` because a choice did not parse).
    """
    pairs: dict[tuple[str, str], list[tuple[Compared, Compared]]] = defaultdict(list)
    # Both orders of a pair follow each other (`compare_answers`).
    for one, other in zip(compared[::2], compared[1::2], strict=True):
        pairs[one.first.method, one.measure].append((one, other))
    by_method: dict[str, Any] = defaultdict(dict)
    for (name, measure), orders in sorted(pairs.items()):
        by_method[name][measure] = _preference(orders, seed)
    return {"against": method, "methods": dict(by_method)}


def compared_table(compared: Sequence[Compared]) -> pa.Table:
    """One row a pair, measure and order; columns of COMPARED_SCHEMA."""
    rows = [
        {
            "measure": c.measure,
            "prompt_id": c.first.prompt_id,
            "bias_type": c.first.bias_type,
            "repeat": c.first.repeat,
            "first": c.first.method,
            "second": c.second.method,
            "said_first": c.said_first,
            "first_probability": c.first_probability,
            "failure": c.failure,
        }
        for c in compared
    ]
    return pa.Table.from_pylist(rows, schema=COMPARED_SCHEMA)


def _estimate(judged: Sequence[Judged], source: LabelSource, seed: int) -> dict[str, Any]:
    scores = [(score_of(j.judgement, source), j.answer.topic_id) for j in judged]
    known = [(score, topic) for score, topic in scores if score is not None]
    estimate = _by_topic(known, seed)
    distinct = {j.judgement.said for j in judged} - {None}
    return {
        "mean": estimate and estimate.value,
        "low": estimate and estimate.low,
        "high": estimate and estimate.high,
        "n": len(known),
        "without_score": len(scores) - len(known),
        "distinct_said_scores": len(distinct),
    }


def _by_topic(known: Sequence[tuple[float, str]], seed: int) -> Estimate | None:
    """Mean of values, each with its topic, whose prompts and repeats are one draw together."""
    return clustered_estimate([v for v, _ in known], [t for _, t in known], seed)


def _preference(orders: Sequence[tuple[Compared, Compared]], seed: int) -> dict[str, Any]:
    whole = [
        ((float(a.said_first) + float(not b.said_first)) / 2, a.first.topic_id)
        for a, b in orders
        if a.said_first is not None and b.said_first is not None
    ]
    chances = [
        ((a.first_probability + 1 - b.first_probability) / 2, a.first.topic_id)
        for a, b in orders
        if a.first_probability is not None and b.first_probability is not None
    ]
    choices = [
        (float(c.said_first), c.first.topic_id)
        for order in orders
        for c in order
        if c.said_first is not None
    ]
    first = _by_topic(choices, seed)
    preferred = _by_topic(whole, seed)
    told = all(
        c.first_probability is not None or c.said_first is None for order in orders for c in order
    )
    expected = _by_topic(chances, seed) if told else None
    return {
        "pairs": len(orders),
        "preferred": preferred and preferred.value,
        "preferred_low": preferred and preferred.low,
        "preferred_high": preferred and preferred.high,
        "expected": expected and expected.value,
        "expected_low": expected and expected.low,
        "expected_high": expected and expected.high,
        "order_decided": sum(share == 0.5 for share, _ in whole) / len(whole) if whole else None,
        "first": first and first.value,
        "first_low": first and first.low,
        "first_high": first and first.high,
        "failures": len(orders) - len(whole),
    }


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
