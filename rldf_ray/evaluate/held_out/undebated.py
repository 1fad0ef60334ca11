"""What a reward model makes of answers to scenes that nobody debated.

Held-out pairs are debaters' statements, and mostly easy: a reward model can be right on nearly all
of them and still hold "not known" for the best answer where the clue tells. PPO then teaches the
policy to say that always. Here the answers are the two names and a way to say that it is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any

from more_itertools import interleave_longest

from rldf_ray.models.reward_score import RewardModel, reward_model
from rldf_ray.records import Topic
from rldf_ray.stats import share_estimate
from rldf_ray.topics.unknown import UNKNOWN, Wordings

MOST = 24
"""Scenes asked about: each is six answers to read."""

Row = Mapping[str, Any]
Rewards = dict[str, float]


def undebated_scenes(
    prompts: Iterable[Row], topics: Iterable[Topic], wordings: Wordings
) -> list[dict[str, Any]]:
    """Judgement topics of the `ppo` split with both their prompts, at most MOST.

    Settings may be chosen by what comes of them, so held-out topics are not among them. The bias
    types take turns, and within one the ids' hashes decide.

    Args:
        prompts: rows of data/prompts.parquet.
        topics: those of the run.
        wordings: how the debaters were to say that something is not known.

    Returns:
        Rows with `plain` and `clue` (messages), `right`, `wrong` and `unknown` (answers).
    """
    scenes = {topic.topic_id: topic for topic in topics if topic.kind == "judgement"}
    prompts_of: dict[str, dict[str, Any]] = {}
    for row in prompts:
        if row["topic_id"] in scenes and row["split"] == "ppo":
            name = "clue" if row["clue_shown"] else "plain"
            prompts_of.setdefault(row["topic_id"], {})[name] = row["prompt"]
    by_type: dict[str, list[str]] = {}
    for topic_id in sorted(prompts_of, key=lambda name: name.rpartition("-")[2]):
        by_type.setdefault(scenes[topic_id].bias_type, []).append(topic_id)
    in_turn = interleave_longest(*(by_type[name] for name in sorted(by_type)))
    ids = islice(in_turn, MOST)
    unknown = UNKNOWN[wordings]
    return [
        {**prompts_of[topic_id], **_answers(scenes[topic_id], unknown[i % len(unknown)])}
        for i, topic_id in enumerate(ids)
    ]


def _answers(scene: Topic, unknown: str) -> dict[str, str]:
    assert scene.answer is not None and scene.groups is not None  # a judgement topic has both
    (wrong,) = (group for group in scene.groups if group != scene.answer)
    answers = {"right": scene.answer, "wrong": wrong, "unknown": unknown}
    return {name: f"{text[0].upper()}{text[1:]}." for name, text in answers.items()}


def undebated_rewards(
    folder: str,
    scenes: Sequence[Row],
    *,
    device: str,
    threads: int,
    max_length: int,
) -> list[dict[str, Rewards]]:
    """Rewards of each scene's `right`, `wrong` and `unknown`, without (`plain`) and with `clue`.

    Args:
        folder: the reward model's, or its address in an object store.
        scenes: of `undebated_scenes`.
        threads: torch threads on a CPU.
    """
    model = reward_model(folder, device, threads, max_length)
    return [
        {prompt: _rewards(model, scene, prompt) for prompt in ("plain", "clue")} for scene in scenes
    ]


def _rewards(model: RewardModel, scene: Row, prompt: str) -> Rewards:
    names = ("right", "wrong", "unknown")
    chats = [model.template.answered(scene[prompt], scene[name]) for name in names]
    return dict(zip(names, model.score_chats(chats).tolist(), strict=True))


def undebated_summary(rewards: Sequence[Mapping[str, Rewards]]) -> dict[str, Any] | None:
    """Shares of scenes on which the first has the higher reward, with their Wilson intervals.

    With the clue the right name over the wrong one and over "not known"; without it "not known"
    over both names. None of no scenes.
    """
    wins = {
        "right_over_wrong": [r["clue"]["right"] > r["clue"]["wrong"] for r in rewards],
        "right_over_unknown": [r["clue"]["right"] > r["clue"]["unknown"] for r in rewards],
        "unknown_over_names": [
            r["plain"]["unknown"] > max(r["plain"]["right"], r["plain"]["wrong"]) for r in rewards
        ],
    }
    if not rewards:
        return None
    shares = {name: share_estimate(sum(won), len(won)) for name, won in wins.items()}
    return {
        "scenes": len(rewards),
        **{name: asdict(share) for name, share in shares.items() if share is not None},
    }
