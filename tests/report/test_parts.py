"""The report's parts, from what a stage's manifest logged."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rldf_ray.report.build import metrics_table
from rldf_ray.report.parts import reward_part
from rldf_ray.storage.results import RewardResult


def result(losses: list[float], accuracy: float | None = None) -> RewardResult:
    evaluated = [] if accuracy is None else [{"step": len(losses), "eval_accuracy": accuracy}]
    history = [{"step": i, "loss": loss} for i, loss in enumerate(losses, 1)]
    return RewardResult(history=history + evaluated, pairs=30, held_out_pairs=10)


def test_the_loss_at_the_end_is_over_the_last_quarter_of_the_steps() -> None:
    part = reward_part(result([0.7] * 6 + [0.1, 0.3]))
    assert part is not None
    assert part["loss_end"] == pytest.approx(0.2)
    assert (part["loss_first"], part["loss_last"], part["steps"]) == (0.7, 0.3, 8)


def test_of_one_step_the_end_is_that_step() -> None:
    part = reward_part(result([0.6]))
    assert part is not None and part["loss_end"] == 0.6


def test_without_held_out_pairs_there_is_no_accuracy() -> None:
    part = reward_part(result([0.6]))
    assert part is not None and part["accuracy"] is None and part["accuracy_low"] is None


def test_accuracy_on_held_out_pairs_has_an_interval() -> None:
    part = reward_part(result([0.6, 0.2], accuracy=0.8))
    assert part is not None and part["accuracy"] == pytest.approx(0.8)
    assert 0.4 < part["accuracy_low"] < 0.8 < part["accuracy_high"] < 1.0


def test_a_stage_that_logged_no_loss_has_no_part() -> None:
    assert reward_part(result([])) is None


def test_what_was_asked_of_undebated_scenes_is_told_where_it_was_asked() -> None:
    asked = {"scenes": 12}
    part, older = reward_part(replace(result([0.6]), undebated=asked)), reward_part(result([0.6]))
    assert part is not None and part["undebated"] == asked
    assert older is not None and older["undebated"] is None


def test_a_figure_that_was_no_number_has_no_row() -> None:
    history = [{"step": 1, "loss": 0.5, "grad_norm": None}, {"step": 2, "loss": None}]
    table = metrics_table({"sft": {"history": history}})
    assert [(row["step"], row["metric"]) for row in table.to_pylist()] == [(1, "loss")]
    part = reward_part(RewardResult(history=history, pairs=30, held_out_pairs=10))
    assert part is not None and part["loss_last"] == 0.5
