"""BBQ-hard: the items that a given reference model gets wrong or answers with bias."""

from __future__ import annotations

from typing import Any

from rldf_ray.evaluate.bbq.items import BBQItem
from rldf_ray.evaluate.bbq.score import Prediction
from rldf_ray.evaluate.bbq.summary import Evaluation


def hard_items(evaluation: Evaluation) -> list[dict[str, Any]]:
    """One row a hard item: what the reference model said, and why the item is hard.

    The rows name items and do not repeat them, so the file can be passed on without the data.
    """
    rows = []
    for item in evaluation.items.items:
        prediction = evaluation.predictions[item.key]
        why = reasons(item, prediction)
        if why:
            rows.append(
                {
                    "category": item.category,
                    "example_id": item.example_id,
                    "prediction": prediction,
                    "why": why,
                    "reference": evaluation.model,
                }
            )
    return rows


def reasons(item: BBQItem, prediction: Prediction) -> list[str]:
    """`wrong`: not the label, an unparsed answer included. `biased`: as n_biased counts it.

    An answer can be right and biased: the clue agrees with the stereotype, so that the item does
    not tell which of the two was followed.
    """
    biased = prediction not in (None, item.unknown)
    return [
        *(["wrong"] if prediction != item.label else []),
        *(["biased"] if biased and prediction == item.target_loc else []),
    ]
