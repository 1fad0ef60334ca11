"""Scenes that nobody debated, and what a reward model makes of answers to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rldf_ray.dataset.preference_data import prompt_of, prompts_table
from rldf_ray.evaluate.held_out.undebated import (
    MOST,
    undebated_rewards,
    undebated_scenes,
    undebated_summary,
)
from rldf_ray.models.reward_score import RewardModel
from rldf_ray.topics.unknown import UNKNOWN
from tests.fakes import judgement, opinion

ANSWERS = ("right", "wrong", "unknown")


def scenes_of(topics: list[Any]) -> list[dict[str, Any]]:
    return undebated_scenes(prompts_table(topics).to_pylist(), topics, "own")


def test_only_scenes_that_ppo_is_given_are_asked_about_with_both_prompts() -> None:
    """Settings may be chosen by what comes of it, so held-out scenes are none of them."""
    asked = judgement(1, split="ppo")
    others = [opinion(2, split="ppo"), opinion(3, split="eval"), judgement(4, split="eval")]
    (scene,) = scenes_of([judgement(0), asked, *others])
    assert (scene["plain"], scene["clue"]) == (prompt_of(asked, False), prompt_of(asked, True))
    assert scene["plain"] != scene["clue"]
    assert (scene["right"], scene["wrong"]) == ("The young baker.", "The old baker.")
    assert scene["unknown"] == f"{UNKNOWN['own'][0]}."


def test_few_scenes_are_of_all_bias_types_and_of_all_ways_to_leave_it_open() -> None:
    ages = [judgement(n, split="ppo") for n in range(2 * MOST)]
    others = [judgement(n, "religion", split="ppo") for n in (70, 80, 90)]
    scenes = scenes_of([*ages, *others])
    assert len(scenes) == MOST
    theirs = [prompt_of(topic, True) for topic in others]
    assert [scene["clue"] in theirs for scene in scenes[:6]] == [False, True] * 3
    assert {scene["unknown"] for scene in scenes} == {f"{words}." for words in UNKNOWN["own"]}
    assert scenes_of([*others, *ages[::-1]]) == scenes


def test_rewards_are_of_the_answer_after_its_prompt(tmp_path: Path) -> None:
    from tests.train.tiny import save_tiny_models

    folder = save_tiny_models(tmp_path)["reward"]
    plain, clue = ([{"role": "user", "content": words}] for words in ("w1 w2", "w1 w2 w3"))
    scene: dict[str, Any] = {
        "plain": plain,
        "clue": clue,
        "right": "w4",
        "wrong": "w5 w6",
        "unknown": "w7",
    }
    (found,) = undebated_rewards(folder, [scene], device="cpu", threads=1, max_length=64)
    model = RewardModel(folder, "cpu", 64)
    for name, prompt in (("plain", plain), ("clue", clue)):
        alone = {answer: model.score_answer(prompt, scene[answer])[0] for answer in ANSWERS}
        assert found[name] == pytest.approx(alone, abs=1e-5)
    assert found["plain"] != found["clue"]


def rewards(*ordered: str) -> dict[str, float]:
    """Rewards of the answers from the best to the worst."""
    return {name: -float(place) for place, name in enumerate(ordered)}


def test_shares_are_of_scenes_on_which_the_better_answer_has_more() -> None:
    reads = {
        "clue": rewards("right", "unknown", "wrong"),
        "plain": rewards("unknown", "right", "wrong"),
    }
    hides = {
        "clue": rewards("unknown", "right", "wrong"),
        "plain": rewards("unknown", "right", "wrong"),
    }
    names = {"clue": rewards("wrong", "right", "unknown"), "plain": rewards(*ANSWERS)}
    even = {prompt: dict.fromkeys(ANSWERS, 0.5) for prompt in ("clue", "plain")}
    found = undebated_summary([reads, hides, names, even])
    assert found is not None and found["scenes"] == 4
    assert found["right_over_wrong"]["value"] == 0.5
    assert found["right_over_unknown"]["value"] == 0.5
    assert found["unknown_over_names"]["value"] == 0.5
    assert found["unknown_over_names"]["low"] < 0.5 < found["unknown_over_names"]["high"]
    some = undebated_summary([reads, reads, hides])
    assert some is not None and some["right_over_wrong"]["value"] == 1
    assert some["right_over_unknown"]["value"] == pytest.approx(2 / 3)


def test_of_no_scenes_there_is_no_share() -> None:
    assert undebated_summary([]) is None and scenes_of([judgement(0), opinion(1)]) == []
