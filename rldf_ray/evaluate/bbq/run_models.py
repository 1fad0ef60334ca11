"""Base, SFT and policy on the same multiple-choice items: predictions, scores, differences."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from rldf_ray.evaluate.bbq.intervals import intervals
from rldf_ray.evaluate.bbq.summary import as_dict
from rldf_ray.evaluate.ranking.scores import best_option
from rldf_ray.plan import Plan
from rldf_ray.records import Topic
from rldf_ray.sets.bbq.data import load_bbq
from rldf_ray.sets.bbq.items import BBQItem, BBQSet, Condition, Key
from rldf_ray.sets.bbq.score import score
from rldf_ray.stats import clustered_estimate
from rldf_ray.topics.overlap import EvaluationTexts, overlap_counts

SCENES = Path(__file__).parent / "scenes"
SCENES_NAME = "everyday scenes (written for this project, in BBQ's file format)"

ITEM_SCHEMA = pa.schema(
    [
        ("model", pa.string()),
        ("category", pa.string()),
        ("example_id", pa.int64()),
        ("condition", pa.string()),
        ("polarity", pa.string()),
        ("prediction", pa.int64()),
        ("label", pa.int64()),
        ("target_loc", pa.int64()),
        ("scores", pa.list_(pa.float64())),
    ]
)

OptionScores = Sequence[tuple[float, ...]]


def load_items(plan: Plan, without: Container[Key] = ()) -> BBQSet:
    """The plan's multiple-choice items: BBQ from its folder, or the small set shipped here.

    Args:
        without: items that are left out before the plan's sample is drawn.
    """
    section = plan.evaluate
    return load_bbq(section.bbq or SCENES, None, section.items_per_category, plan.seed, without)


def set_name(plan: Plan) -> str:
    return f"BBQ ({Path(plan.evaluate.bbq).name})" if plan.evaluate.bbq else SCENES_NAME


def evaluation_texts(items: Sequence[BBQItem]) -> EvaluationTexts:
    """What topics must not repeat: every item's context and question."""
    return EvaluationTexts.of([(item.context, item.question) for item in items])


def topic_overlap(topics: Sequence[Topic], items: Sequence[BBQItem]) -> dict[str, int]:
    """How many of a run's topics repeat the items, for report.json."""
    counts = overlap_counts(topics, evaluation_texts(items))
    return {
        "topics": len(topics),
        "items": len(items),
        "ngram": counts["ngram"],
        "same_words": counts["same_words"],
    }


def always_unknown(items: BBQSet) -> dict[str, Any]:
    """The figures of a model that reads nothing and always says that it cannot be known."""
    return score(items.items, {item.key: item.unknown for item in items.items}).overall.as_dict()


def items_table(items: BBQSet, scores: Mapping[str, OptionScores]) -> pa.Table:
    """One row a model and item; columns of ITEM_SCHEMA."""
    rows = [
        {
            "model": model,
            "category": item.category,
            "example_id": item.example_id,
            "condition": item.condition,
            "polarity": item.polarity,
            "prediction": best_option(option_scores),
            "label": item.label,
            "target_loc": item.target_loc,
            "scores": list(option_scores),
        }
        for model, of_model in scores.items()
        for item, option_scores in zip(items.items, of_model, strict=True)
    ]
    return pa.Table.from_pylist(rows, schema=ITEM_SCHEMA)


def summarise(items: BBQSet, scores: OptionScores, seed: int) -> dict[str, Any]:
    """BBQ's scores of one model by the paper's definitions, with intervals by template."""
    predictions = {
        item.key: best_option(option_scores)
        for item, option_scores in zip(items.items, scores, strict=True)
    }
    bounds = intervals(items.items, predictions, "paper", seed)
    return as_dict(score(items.items, predictions), bounds, "paper")


def difference(
    items: BBQSet,
    before: OptionScores,
    after: OptionScores,
    seed: int,
    condition: Condition | None = None,
) -> dict[str, Any] | None:
    """Change of accuracy from one model to another on the same items; templates are resampled.

    Args:
        condition: which items count; None is all.

    Returns:
        The estimate, and `templates`, how many there are; None of no items.
    """
    counted = [
        (item, b - a)
        for item, a, b in zip(items.items, _right(items, before), _right(items, after), strict=True)
        if condition in (None, item.condition)
    ]
    changes = [change for _, change in counted]
    templates = [(item.category, item.question_index) for item, _ in counted]
    estimate = clustered_estimate(changes, templates, seed)
    if estimate is None:
        return None
    return {**asdict(estimate), "templates": len(set(templates))}


def _right(items: BBQSet, scores: OptionScores) -> list[float]:
    return [
        float(best_option(option_scores) == item.label)
        for item, option_scores in zip(items.items, scores, strict=True)
    ]
