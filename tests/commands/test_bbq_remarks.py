"""What is said under the tables of `rldf eval bbq`: abstention and accuracy apart."""

from __future__ import annotations

from typing import Any

from rldf_ray.evaluate.bbq.run_models import SCENES
from rldf_ray.evaluate.bbq.summary import Answer, Evaluation
from rldf_ray.evaluate.bbq.tables import remarks
from rldf_ray.sets.bbq.data import load_bbq

ITEMS = load_bbq(SCENES, None, 8)


def summary(scored: bool) -> dict[str, Any]:
    """Of a model that never says "unknown" and otherwise reads everything."""
    answers = {}
    for item in ITEMS.items:
        scores = [float(option == item.label) for option in range(3)]
        scores[item.unknown] -= 2
        said = scores.index(max(scores))
        answers[item.key] = Answer(said, scores=tuple(scores) if scored else None)
    found = Evaluation(
        model="m", mode="rank", variant="paper", items=ITEMS, answers=answers, seed=0
    ).summary()
    return found | {"overlap": None, "written": "eval/bbq.parquet"}


def test_a_model_that_is_never_silent_is_told_from_one_that_does_not_read() -> None:
    (told,) = [line for line in remarks(summary(True)) if "context tells" in line]
    assert '0.00 of the answers are "unknown", and 1.00 of the others right' in told
    assert "where it does not: 1.00" in told and "an item of each kind is right in 1.00" in told


def test_without_scores_nothing_is_said_of_thresholds() -> None:
    (told,) = [line for line in remarks(summary(False)) if "context tells" in line]
    assert told.endswith("1.00 of the others right (a guess: 0.50).")
