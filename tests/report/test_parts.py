"""The report's parts, from what a stage's manifest logged."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from rldf_ray.report.build import metrics_table
from rldf_ray.report.training_parts import preference_part, reward_part
from rldf_ray.stats import share_estimate
from rldf_ray.storage.results import DPOResult, KTOResult, RewardResult


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
    # A run of an earlier version did not record of how many topics they are.
    assert part["held_out_topics"] is None


def right(*topics: tuple[int, int]) -> dict[str, tuple[int, int]]:
    return {f"t{place}": counts for place, counts in enumerate(topics)}


def with_topics(*topics: tuple[int, int]) -> dict[str, Any]:
    whole = replace(result([0.6, 0.2], accuracy=0.5), right_by_topic=right(*topics))
    part = reward_part(replace(whole, held_out_pairs=sum(number for _, number in topics)))
    assert part is not None
    return part


def test_the_interval_of_the_accuracy_draws_topics() -> None:
    """Sixty pairs of six topics: pairs of a topic are right and wrong together."""
    part = with_topics((10, 10), (10, 10), (10, 10), (10, 10), (0, 10), (0, 10))
    wilson = share_estimate(40, 60)
    assert part["accuracy"] == pytest.approx(2 / 3) and part["held_out_topics"] == 6
    assert wilson is not None and wilson.low is not None and wilson.low > 0.5
    assert part["accuracy_low"] < 0.4 and part["accuracy_high"] == 1.0
    alike = with_topics(*[(7, 10)] * 6)
    assert (alike["accuracy"], alike["accuracy_low"], alike["accuracy_high"]) == (0.7, None, None)


@pytest.mark.parametrize("topics", [1, 3, 5])
def test_an_accuracy_on_few_topics_has_no_interval(topics: int) -> None:
    for counts in ((20, 20), (15, 20)):
        part = with_topics(*[counts] * (topics - 1), (19, 20))
        assert part["accuracy"] > 0.7 and part["held_out_topics"] == topics
        assert part["accuracy_low"] is part["accuracy_high"] is None


@pytest.mark.parametrize("topics", [6, 12])
def test_where_all_pairs_are_right_the_interval_is_that_of_as_many_topics(topics: int) -> None:
    wilson = share_estimate(topics, topics)
    part = with_topics(*[(9, 9)] * topics)
    assert wilson is not None and part["accuracy"] == 1.0
    assert (part["accuracy_low"], part["accuracy_high"]) == (wilson.low, wilson.high)
    wrong = with_topics(*[(0, 9)] * topics)
    assert wrong["accuracy_high"] == pytest.approx(1 - part["accuracy_low"])


@pytest.mark.parametrize("kind", [DPOResult, KTOResult])
def test_of_dpo_and_kto_topics_are_drawn_as_well(kind: type[DPOResult] | type[KTOResult]) -> None:
    counts = {"desirable": 4, "undesirable": 4, "desirable_weight": 1.0, "undesirable_weight": 1.0}
    whole = result([0.6, 0.2], accuracy=2 / 3)
    part = preference_part(
        kind(
            pairs=9,
            held_out_pairs=60,
            too_long=0,
            history=whole.history,
            right_by_topic=right(*[(10, 10)] * 4, (0, 10), (0, 10)),
            **(counts if kind is KTOResult else {}),
        )
    )
    assert part is not None and part["accuracy"] == pytest.approx(2 / 3)
    assert part["accuracy_low"] < 0.4 and part["held_out_topics"] == 6


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
