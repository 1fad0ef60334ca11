"""The quickstart's goals: each is met or missed as the report's figures say."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.quickstart import effects_of


def report_of(
    *, base: tuple[float, float], policy: tuple[float, float], low: float, reward_low: float
) -> dict[str, Any]:
    """Of overall and disambiguated accuracies, and the lower ends of two intervals."""
    names = ("accuracy", "accuracy_disambig")
    models = {
        name: {"multiple_choice": {"overall": dict(zip(names, values, strict=True))}}
        for name, values in (("base", base), ("policy", policy))
    }
    return {
        "evaluation": {
            "models": models,
            "accuracy_change": {"policy": {"value": policy[0] - base[0], "low": low}},
            "always_unknown": {"accuracy": 0.5},
        },
        "training": {"reward": {"accuracy_low": reward_low}},
    }


GOOD: dict[str, Any] = {
    "base": (0.24, 0.48),
    "policy": (0.55, 0.46),
    "low": 0.2,
    "reward_low": 0.7,
}


def test_an_effect_that_meets_every_goal() -> None:
    assert [met for *_, met in effects_of(report_of(**GOOD))] == [True] * 5


@pytest.mark.parametrize(
    ("change", "missed"),
    [
        ({"policy": (0.33, 0.46)}, {0, 3}),
        ({"low": -0.01}, {1}),
        ({"policy": (0.55, 0.42)}, {2}),
        ({"policy": (0.5, 0.46)}, {3}),
        ({"reward_low": 0.5}, {4}),
    ],
)
def test_each_goal_can_be_missed(change: dict[str, Any], missed: set[int]) -> None:
    found = effects_of(report_of(**{**GOOD, **change}))
    assert {place for place, (*_, met) in enumerate(found) if not met} == missed
