"""People's scores of each method, and how far the raters agree with one another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from rldf_ray.evaluate.judge.answers import FreeAnswer
from rldf_ray.evaluate.judge.rubrics import MEASURES, Measure, rubric
from rldf_ray.evaluate.long_format import ALL, LONG_SCHEMA, Value, long_table
from rldf_ray.evaluate.people.agreement import fleiss_kappa, krippendorff_alpha
from rldf_ray.evaluate.people.ratings import Rating
from rldf_ray.evaluate.people.sheet import Sheet
from rldf_ray.stats import clustered_estimate

RATED_SCHEMA = pa.schema(
    [
        ("method", pa.string()),
        ("repeat", pa.int64()),
        ("seed", pa.int64()),
        ("prompt_id", pa.string()),
        ("bias_type", pa.string()),
        ("answer_id", pa.string()),
        ("item", pa.string()),
        ("rater", pa.string()),
        ("measure", pa.string()),
        ("score", pa.int64()),
    ]
)

Scored = tuple[FreeAnswer, float]


def rated_table(sheet: Sheet, ratings: Sequence[Rating]) -> pa.Table:
    """One row a rater, answer and measure, with the answer's method; columns of RATED_SCHEMA."""
    by_item: dict[str, list[Rating]] = defaultdict(list)
    for rating in ratings:
        by_item[rating.item].append(rating)
    rows = [
        {
            "method": answer.method,
            "repeat": answer.repeat,
            "seed": answer.seed,
            "prompt_id": answer.prompt_id,
            "bias_type": answer.bias_type,
            "answer_id": answer.answer_id,
            "item": code,
            "rater": rating.rater,
            "measure": rating.measure,
            "score": rating.score,
        }
        for code, answer in sheet.key
        for rating in by_item[code]
    ]
    return pa.Table.from_pylist(rows, schema=RATED_SCHEMA)


def people_values(scored: Sequence[Scored], measure: Measure) -> list[Value]:
    """Mean over answers of the raters' mean, by bias type and over all."""
    groups: dict[str, list[float]] = defaultdict(list)
    for answer, score in scored:
        groups[answer.bias_type].append(score)
        groups[ALL].append(score)
    return [
        Value(group, measure, sum(scores) / len(scores), len(scores))
        for group, scores in sorted(groups.items())
    ]


def long_people(sheet: Sheet, ratings: Sequence[Rating]) -> pa.Table:
    """`people_values` of every method and repeat; columns of LONG_SCHEMA, set "people"."""
    tables = []
    for measure in MEASURES:
        runs: dict[tuple[str, int, int], list[Scored]] = defaultdict(list)
        for answer, score in _scored(sheet, ratings, measure):
            runs[answer.method, answer.repeat, answer.seed].append((answer, score))
        tables += [
            long_table(method, repeat, seed, "people", people_values(of_run, measure))
            for (method, repeat, seed), of_run in sorted(runs.items())
        ]
    return pa.concat_tables(tables) if tables else LONG_SCHEMA.empty_table()


def people_summary(sheet: Sheet, ratings: Sequence[Rating], seed: int) -> dict[str, Any]:
    """Means by method with bootstrap intervals over topics, agreement, and what is missing."""
    raters = sorted({rating.rater for rating in ratings})
    methods: dict[str, Any] = {}
    for method in dict.fromkeys(answer.method for _, answer in sheet.key):
        methods[method] = {
            measure: _estimate(
                [x for x in _scored(sheet, ratings, measure) if x[0].method == method], seed
            )
            for measure in MEASURES
        }
    cells = len(sheet.items) * len(raters) * len(MEASURES)
    return {
        "items": len(sheet.items),
        "raters": raters,
        "ratings": len(ratings),
        "empty": cells - len(ratings),
        "methods": methods,
        "agreement": {measure: agreement(sheet, ratings, measure) for measure in MEASURES},
    }


def agreement(sheet: Sheet, ratings: Sequence[Rating], measure: Measure) -> dict[str, Any]:
    """Fleiss' kappa on the rubric's five levels, Krippendorff's alpha on the scores.

    Returns:
        `kappa` over the `kappa_items` that every rater rated, None with fewer than two raters or
        items, or where all ratings are on one level; `alpha` over the `alpha_items` with two
        ratings or more, None where all are equal.
    """
    mine = [rating for rating in ratings if rating.measure == measure]
    raters = sorted({rating.rater for rating in mine})
    scores = np.full((len(raters), len(sheet.items)), np.nan)
    row = {rater: place for place, rater in enumerate(raters)}
    column = {item.code: place for place, item in enumerate(sheet.items)}
    for rating in mine:
        scores[row[rating.rater], column[rating.item]] = rating.score
    number = (~np.isnan(scores)).sum(0)
    whole = scores[:, number == len(raters)] if raters else scores
    enough = len(raters) >= 2 and whole.shape[1] >= 2
    return {
        "raters": len(raters),
        "kappa": fleiss_kappa(_levels(whole, measure)) if enough else None,
        "kappa_items": int(whole.shape[1]) if len(raters) >= 2 else 0,
        "alpha": krippendorff_alpha(scores) if len(raters) >= 2 else None,
        "alpha_items": int((number >= 2).sum()),
    }


def _levels(scores: Any, measure: Measure) -> Any:
    """Counts [items, levels] from scores [raters, items]."""
    scale = rubric(measure)
    counts = np.zeros((scores.shape[1], len(scale.levels)), dtype=int)
    for item, column in enumerate(scores.T):
        for score in column:
            counts[item, scale.level_of(float(score))] += 1
    return counts


def _scored(sheet: Sheet, ratings: Sequence[Rating], measure: Measure) -> list[Scored]:
    """Every answer that has a rating, with the mean over its raters."""
    by_item: Mapping[str, list[int]] = defaultdict(list)
    for rating in ratings:
        if rating.measure == measure:
            by_item[rating.item].append(rating.score)
    return [
        (answer, sum(by_item[code]) / len(by_item[code]))
        for code, answer in sheet.key
        if by_item[code]
    ]


def _estimate(scored: Sequence[Scored], seed: int) -> dict[str, Any]:
    scores, topics = [score for _, score in scored], [answer.topic_id for answer, _ in scored]
    estimate = clustered_estimate(scores, topics, seed)
    return {
        "mean": estimate and estimate.value,
        "low": estimate and estimate.low,
        "high": estimate and estimate.high,
        "n": len(scores),
    }
