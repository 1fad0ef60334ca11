"""Figures that no abstention threshold changes, with intervals over question templates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rldf_ray.comparison import reading
from rldf_ray.comparison.reading import FIGURES, Reading, reading_table, readings
from rldf_ray.evaluate.bbq.run_models import SCENES
from rldf_ray.evaluate.bbq.unknown import abstention_auroc, accuracy_curve_area
from rldf_ray.sets.bbq.data import load_bbq
from rldf_ray.sets.bbq.items import BBQItem
from rldf_ray.stats import Estimate

ITEMS = load_bbq(SCENES, None, 8).items
Scores = Callable[[BBQItem, int], tuple[float, ...]]


def answered(method: str, scores: Scores, repeats: int = 1) -> list[dict[str, Any]]:
    return [
        {
            "method": method,
            "repeat": repeat,
            "group": item.category,
            "template": item.question_index,
            "item_id": f"{item.category}/{item.example_id}",
            "condition": item.condition,
            "label": item.label,
            "unknown": item.unknown,
            "scores": list(scores(item, repeat)),
        }
        for repeat in range(repeats)
        for item in ITEMS
    ]


def drawn(seed: int, reads: float = 0.0) -> Scores:
    """Whole numbers, so that some margins are equal; the right option has `reads` more."""
    generator = np.random.default_rng(seed)
    scores = {
        (item.key, repeat): generator.integers(-3, 4, size=3) + reads * np.eye(3)[item.label]
        for repeat in range(2)
        for item in ITEMS
    }
    return lambda item, repeat: tuple(scores[item.key, repeat].tolist())


def by_measure(found: list[Reading], method: str) -> dict[str, Reading]:
    return {one.measure: one for one in found if one.method == method}


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 1.0, 5.0]))
def test_values_are_the_figures_and_the_mean_of_the_repeats(seed: int, reads: float) -> None:
    scores = drawn(seed, reads)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "RESAMPLES", 20)
        found = by_measure(readings(answered("cot", scores, 2), ["cot"], 0, "rank"), "cot")
    for measure, of in zip(FIGURES, (abstention_auroc, accuracy_curve_area), strict=True):
        each = [of(ITEMS, {i.key: scores(i, repeat) for i in ITEMS}) for repeat in range(2)]
        assert found[measure].figure.value == pytest.approx(
            np.mean([v for v in each if v is not None])
        )


def test_intervals_hold_the_value_and_differences_are_paired() -> None:
    good, same = drawn(1, 3.0), drawn(2)
    rows = [*answered("default", same), *answered("sft", good), *answered("cot", same)]
    found = readings(rows, ["default", "sft", "cot"], 7, "rank")
    for figure in (one.figure for one in found):
        assert figure.low is not None and figure.high is not None
        assert figure.low < figure.value < figure.high
    default, sft, cot = (by_measure(found, method) for method in ("default", "sft", "cot"))
    for measure in FIGURES:
        assert default[measure].difference is None
        better, worse = sft[measure], default[measure].figure
        assert better.difference is not None and better.difference.low is not None
        assert better.difference.value == pytest.approx(better.figure.value - worse.value)
        assert better.difference.low > 0
        # The same answers in every resample: a difference that does not vary has no interval.
        assert cot[measure].difference == Estimate(0.0, None, None, worse.n)
    assert readings(rows, ["default", "sft", "cot"], 7, "rank") == found


def test_few_templates_have_no_interval_and_answers_without_scores_no_figure() -> None:
    few = sorted({(i.category, i.question_index) for i in ITEMS})[:5]
    rows = [r for r in answered("sft", drawn(3)) if (r["group"], r["template"]) in few]
    found = readings(rows, ["sft"], 0, "rank")
    assert [one.measure for one in found] == list(FIGURES)
    assert all(one.figure.low is None and one.difference is None for one in found)
    rows[0]["scores"] = None
    assert readings(rows, ["sft"], 0, "rank") == []
    told = [r for r in answered("sft", drawn(3)) if r["condition"] == "disambig"]
    assert readings(told, ["sft"], 0, "rank") == readings([], ["sft"], 0, "rank") == []


def test_the_table_has_a_row_a_method() -> None:
    whole, less = Estimate(0.7, 0.61, 0.8, 9), Estimate(-0.05, -0.1, 0.01, 9)
    found = [
        Reading(method, "letter", measure, whole, difference)
        for method, difference in (("default", None), ("sft", less))
        for measure in FIGURES
    ]
    title, table, about = reading_table(found, {"default": "Default", "sft": "SFT"}, 9).split(
        "\n\n"
    )
    assert title == "**Table 9's last two figures with 95 % intervals: by letter**"
    assert (
        table.splitlines()[2]
        == "| Default | 0.700 (0.610 to 0.800) |  | 0.700 (0.610 to 0.800) |  |"
    )
    assert table.splitlines()[3].count("-0.050 (-0.100 to +0.010)") == 2
    assert "templates are resampled" in about
