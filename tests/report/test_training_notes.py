"""The notes on training: what held-out pairs and undebated scenes show, and no more."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldf_ray.report.notes import notes_of
from rldf_ray.report.training_notes import is_unproven, preference_notes
from rldf_ray.stats import share_estimate
from tests.report.reports import (
    FUNCTION,
    MODEL,
    REWARD,
    a_report,
    planned,
    the_note,
    trained,
)

# ---- the reward model


@pytest.mark.parametrize("low", [0.3, 0.5])
def test_a_reward_model_no_better_than_a_coin_is_called_so(low: float) -> None:
    reward = {**REWARD, "accuracy": 0.6, "accuracy_low": low, "held_out_pairs": 20}
    note = the_note(trained(reward=reward), "The reward model")
    assert "not shown to be better than a coin" in note and "0.60 on 20 held-out pairs" in note
    assert "noise" in note


@pytest.mark.parametrize(
    ("topics", "said"),
    [
        (12, "accuracy 0.80 on 50 held-out pairs of 12 topics)"),
        # A run of an earlier version recorded no topics.
        (None, "accuracy 0.80 on 50 held-out pairs, taken as independent)"),
    ],
)
def test_an_accuracy_is_told_with_its_topics(topics: int | None, said: str) -> None:
    reward = REWARD if topics is None else {**REWARD, "held_out_topics": topics}
    for low, beginning in ((0.7, "The reward model agrees"), (0.4, "The reward model is not")):
        note = the_note(trained(reward={**reward, "accuracy_low": low}), beginning)
        assert said in note


@pytest.mark.parametrize(("topics", "of"), [(1, "1 topic"), (3, "3 topics")])
def test_held_out_pairs_of_few_topics_show_nothing(topics: int, of: str) -> None:
    few = {**REWARD, "accuracy": 1.0, "accuracy_low": None, "held_out_topics": topics}
    assert is_unproven(few)
    note = the_note(trained(reward=few), "The held-out pairs are of too few topics")
    assert note.endswith(f"(accuracy 1.00 on 50 held-out pairs of {of}).")
    (note,) = preference_notes("dpo", few)
    assert "is not shown to have learned" in note
    assert f"accuracy of its implicit reward 1.00 on 50 held-out pairs of {of}; too few" in note


def test_an_accuracy_that_is_the_same_on_every_topic_shows_nothing_either() -> None:
    half = {**REWARD, "accuracy": 0.5, "accuracy_low": None, "held_out_topics": 8}
    note = the_note(trained(reward=half), "The reward model is not shown to be better than a coin")
    assert "too few" not in note
    (note,) = preference_notes("kto", half)
    assert "of 8 topics; the same on every topic;" in note


def test_without_held_out_pairs_nothing_is_unproven() -> None:
    assert not is_unproven({**REWARD, "accuracy": None, "accuracy_low": None})


def test_a_reward_model_that_agrees_is_not_said_to_be_right() -> None:
    note = the_note(a_report(), "The reward model")
    assert "0.80 on 50 held-out pairs" in note and "not how good they are" in note


@pytest.mark.parametrize("accuracy", [0.8, None])
def test_a_reward_model_that_is_not_trained_to_its_end_is_said_to_be_so(
    accuracy: float | None,
) -> None:
    reward = {**REWARD, "loss_end": 0.55, "accuracy": accuracy}
    note = the_note(trained(reward=reward), "The loss of the reward model")
    assert "0.55" in note and "0.69" in note and "reward.epochs" in note
    assert not any(note.startswith("The loss of the reward model") for note in notes_of(a_report()))


@pytest.mark.parametrize(
    ("shares", "taught"),
    [
        ((0.96, 1.0, 0.75), []),
        ((0.96, 0.0, 1.0), ["not to answer where the clue tells"]),
        ((0.5, 0.92, 0.25), ["names that the clue does not tell", "name somebody where nothing"]),
    ],
    ids=["reads the clue", "always open", "never open"],
)
def test_what_a_reward_model_would_teach_is_said(
    shares: tuple[float, float, float], taught: list[str]
) -> None:
    names = ("right_over_wrong", "right_over_unknown", "unknown_over_names")
    asked = {
        name: asdict(share_estimate(round(24 * share), 24))  # type: ignore[call-overload]
        for name, share in zip(names, shares, strict=True)
    }
    reward = {**REWARD, "undebated": {"scenes": 24, **asked}}
    note = the_note(trained(reward=reward), "On 24 scenes nobody debated")
    assert all(f"{share:.2f}" in note for share in shares)
    assert all(words in note for words in taught) and ("PPO will teach" in note) == bool(taught)


def on_scenes(right: int, of: int) -> dict[str, Any]:
    """A reward model that is right on all scenes but on the clue, on `right` of `of`."""
    shares = {"right_over_wrong": of, "right_over_unknown": right, "unknown_over_names": of}
    asked = {name: asdict(share_estimate(n, of)) for name, n in shares.items()}  # type: ignore[call-overload]
    return {**REWARD, "undebated": {"scenes": of, **asked}}


@given(of=st.integers(1, 24), data=st.data())
def test_what_may_be_chance_is_not_said_to_be_taught(of: int, data: st.DataObject) -> None:
    right = data.draw(st.integers(0, of))
    note = the_note(trained(reward=on_scenes(right, of)), f"On {of} scenes")
    high = share_estimate(right, of).high  # type: ignore[union-attr]
    assert high is not None
    assert ("will teach" in note) == (high <= 0.5)
    assert ("may teach" in note) == (right / of <= 0.5 < high)


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({}, "PPO will teach"),
        ({"ppo": {"rewards": [FUNCTION, MODEL]}}, "PPO will teach"),
        ({"ppo": {"rewards": [FUNCTION]}}, "PPO against it would teach"),
        ({"train": {"after": ["dpo"]}}, "PPO against it would teach"),
    ],
)
def test_what_no_ppo_follows_teaches_nobody(sections: dict[str, Any], said: str) -> None:
    report = planned(trained(reward=on_scenes(0, 24), ppo=None), **sections)
    assert said in the_note(report, "On 24 scenes")
    unproven = planned(trained(reward={**REWARD, "accuracy_low": 0.4}, ppo=None), **sections)
    note = the_note(unproven, "The reward model")
    assert ("the rewards PPO follows" in note) == (said == "PPO will teach")


@pytest.mark.parametrize(
    ("taught", "said"),
    [
        (3, "which has learned from answers on 3 of these topics, too: that flatters it."),
        (0, "which has learned from answers on none of these topics."),
        # A run of an earlier version did not count them.
        (None, "which may have learned from answers on these topics, too: that would flatter it."),
    ],
)
def test_what_sft_learned_of_the_held_out_topics_is_said(taught: int | None, said: str) -> None:
    reward = REWARD if taught is None else {**REWARD, "held_out_taught": taught}
    report = trained(reward=reward)
    sft = the_note(planned(report, reward={"start": "sft"}), "The reward model agrees")
    assert sft.endswith(f"It began as the SFT model, {said}")
    assert "SFT" not in the_note(report, "The reward model agrees")
    for report in (a_report(), planned(a_report(), reward={"start": "sft"})):
        assert not any("has not seen" in note for note in notes_of(report))


@pytest.mark.parametrize("name", ["dpo", "kto"])
def test_an_implicit_reward_is_what_answers_gained_against_the_start(name: str) -> None:
    (note,) = preference_notes(name, REWARD)
    assert "gain more likelihood than rejected ones, or lose less of it" in note
    assert "the model it began as" in note and "likelier" not in note and "referee" not in note


@pytest.mark.parametrize(
    "reward", [None, {**REWARD, "accuracy": None, "accuracy_low": None, "held_out_pairs": 0}]
)
def test_an_unmeasured_reward_model_is_not_judged(reward: dict[str, Any] | None) -> None:
    assert not any(note.startswith("The reward model") for note in notes_of(trained(reward=reward)))


@pytest.mark.parametrize("number", [None, 0, 30])
def test_rows_that_were_too_long_to_learn_from_are_said(number: int | None) -> None:
    sft, reward = {"examples": 100, "too_long": number}, {**REWARD, "too_long": number}
    notes = [n for n in notes_of(trained(sft=sft, reward=reward)) if "were left out of" in n]
    said = ["30 of 130 examples", "30 of 280 pairs"] if number else []
    assert [" ".join(note.split()[:4]) for note in notes] == said


# ---- PPO


def test_ppo_is_told_with_its_size_and_its_distance() -> None:
    note = the_note(a_report(), "PPO made")
    assert "64 episodes in 16 steps" in note and "0.0123 nats" in note
    assert not any(note.startswith("PPO made") for note in notes_of(trained(ppo=None)))


def test_a_distance_that_is_no_number_is_not_written_as_one() -> None:
    ppo = {"episodes": 64, "steps": 16, "kl_last": None}
    assert "to the SFT model is no finite number" in the_note(trained(ppo=ppo), "PPO made")
