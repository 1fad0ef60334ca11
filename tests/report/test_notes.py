"""The report's notes: they claim what the numbers show, and no more."""

from __future__ import annotations

from typing import Any

import pytest

from rldf_ray.report.notes import notes_of

LAST = "One run with one seed: differences between runs were not measured."


def change(value: float, low: float | None, high: float | None, n: int = 160) -> dict[str, Any]:
    return {"value": value, "low": low, "high": high, "n": n}


def a_report(**changes: Any) -> dict[str, Any]:
    """A finished run's report, as far as the notes read it."""
    whole: dict[str, Any] = {
        "plan": {"referee": {"threshold_kind": "absolute", "label_source": "said"}},
        "referee": {"verdict": "The referee separates well.", "distinct_said_scores": 9},
        "debates": {"high": 40, "low": 60, "label_sources": {"said": 100}},
        "training": {
            "reward": {"accuracy": 0.8, "accuracy_low": 0.7, "held_out_pairs": 50},
            "ppo": {"episodes": 64, "steps": 16, "kl_last": 0.0123},
        },
        "evaluation": {
            "accuracy_change": {"policy": change(0.1, 0.05, 0.15)},
            "models": {
                "base": {"reward": {"mean": 0.1}},
                "sft": {"reward": {"mean": 0.2}},
                "policy": {"reward": {"mean": 0.3}},
            },
        },
    }
    return {**whole, **changes}


def evaluated(found: dict[str, Any] | None) -> dict[str, Any]:
    evaluation = {**a_report()["evaluation"], "accuracy_change": {"policy": found}}
    return a_report(evaluation=evaluation)


def trained(**changes: Any) -> dict[str, Any]:
    return a_report(training={**a_report()["training"], **changes})


def the_note(report: dict[str, Any], beginning: str) -> str:
    (note,) = [note for note in notes_of(report) if note.startswith(beginning)]
    return note


def test_a_finished_run_is_told_in_the_order_of_its_stages() -> None:
    notes = notes_of(a_report())
    beginnings = ["The referee", "The reward model", "PPO made", "Accuracy of policy", "Rewards on"]
    assert len(notes) == 6 and notes[-1] == LAST
    for note, beginning in zip(notes, beginnings, strict=False):
        assert note.startswith(beginning)


def test_a_run_that_has_only_begun_claims_nothing() -> None:
    begun = a_report(
        referee=None, debates=None, evaluation=None, training={"reward": None, "ppo": None}
    )
    assert notes_of(begun) == [
        "The referee was not audited, so nothing is known of how good its labels are.",
        "The models were not evaluated.",
    ]


# ---- the referee


def test_the_audits_verdict_is_passed_on_word_for_word() -> None:
    assert notes_of(a_report())[0] == "The referee separates well."


@pytest.mark.parametrize(("distinct", "told"), [(1, True), (0, False), (2, False)])
def test_a_referee_that_always_says_the_same_is_told(distinct: int, told: bool) -> None:
    report = a_report(referee={"verdict": "V.", "distinct_said_scores": distinct})
    assert any("the same score" in note for note in notes_of(report)) is told


def test_labels_relative_to_the_round_are_told_with_how_many_there_are() -> None:
    relative = a_report(plan={"referee": {"threshold_kind": "relative", "label_source": "said"}})
    note = the_note(relative, "Labels are relative to the round")
    assert "40 statements" in note and "however mild" in note
    assert not any("relative" in note for note in notes_of(a_report()))
    assert not any("relative to the round" in n for n in notes_of({**relative, "debates": None}))


# ---- the reward model


@pytest.mark.parametrize("low", [0.3, 0.5])
def test_a_reward_model_no_better_than_a_coin_is_called_so(low: float) -> None:
    reward = {"accuracy": 0.6, "accuracy_low": low, "held_out_pairs": 20}
    note = the_note(trained(reward=reward), "The reward model")
    assert "not shown to be better than a coin" in note and "0.60 on 20 held-out pairs" in note
    assert "noise" in note


def test_a_reward_model_that_agrees_is_not_said_to_be_right() -> None:
    note = the_note(a_report(), "The reward model")
    assert "0.80 on 50 held-out pairs" in note and "not how good they are" in note


@pytest.mark.parametrize(
    "reward", [None, {"accuracy": None, "accuracy_low": None, "held_out_pairs": 0}]
)
def test_an_unmeasured_reward_model_is_not_judged(reward: dict[str, Any] | None) -> None:
    assert not any(note.startswith("The reward model") for note in notes_of(trained(reward=reward)))


# ---- PPO


def test_ppo_is_told_with_its_size_and_its_distance() -> None:
    note = the_note(a_report(), "PPO made")
    assert "64 episodes in 16 steps" in note and "0.0123 nats" in note
    assert not any(note.startswith("PPO made") for note in notes_of(trained(ppo=None)))


# ---- the evaluation


@pytest.mark.parametrize(("low", "high"), [(-0.05, 0.15), (0.0, 0.2), (-0.2, 0.0), (-0.3, 0.01)])
def test_an_interval_that_holds_zero_shows_no_difference(low: float, high: float) -> None:
    note = the_note(evaluated(change(0.05, low, high)), "Accuracy of policy")
    assert "no difference beyond noise is shown" in note


@pytest.mark.parametrize(
    ("found", "parts"),
    [
        (change(0.1, 0.05, 0.15), ["+10.0 points on 160 items", "+5.0 to +15.0"]),
        (change(-0.1, -0.15, -0.05), ["-10.0 points", "-15.0 to -5.0"]),
    ],
)
def test_a_difference_beyond_noise_is_told_with_its_interval(
    found: dict[str, Any], parts: list[str]
) -> None:
    note = the_note(evaluated(found), "Accuracy of policy")
    assert all(part in note for part in parts) and "noise" not in note


def test_a_change_without_an_interval_claims_none() -> None:
    note = the_note(evaluated(change(0.0, None, None)), "Accuracy of policy")
    assert "+0.0 points on 160 items" in note and "interval" not in note


def test_a_change_that_was_not_measured_is_not_told() -> None:
    assert not any(note.startswith("Accuracy") for note in notes_of(evaluated(None)))


@pytest.mark.parametrize(
    ("models", "told"),
    [
        ({"base": {"reward": {"mean": 0.1}}, "policy": {"reward": {"mean": 0.2}}}, True),
        ({"base": {"reward": {"mean": 0.1}}, "policy": {"reward": None}}, False),
        ({"base": {"reward": {"mean": 0.1}}}, False),
    ],
)
def test_rewards_are_told_to_come_from_the_model_ppo_was_trained_against(
    models: dict[str, Any], told: bool
) -> None:
    report = a_report(evaluation={"accuracy_change": {}, "models": models})
    assert any("no evidence of less bias" in note for note in notes_of(report)) is told


def test_every_evaluated_run_is_told_to_be_one_run_with_one_seed() -> None:
    assert notes_of(evaluated(None))[-1] == LAST


def test_notes_are_plain_sentences() -> None:
    for note in notes_of(a_report()):
        assert note.endswith(".") and "None" not in note and "nan" not in note.split()


def test_scores_said_in_place_of_expectations_are_told() -> None:
    plan = {"referee": {"threshold_kind": "absolute", "label_source": "expected"}}
    debates = {"high": 40, "low": 60, "label_sources": {"said": 30, "expected": 70}}
    assert the_note(a_report(plan=plan, debates=debates), "30 statements are labelled by")
    told = {**debates, "label_sources": {"expected": 100}}
    notes = notes_of(a_report(plan=plan, debates=told))
    assert not [note for note in notes if "are labelled by" in note]
