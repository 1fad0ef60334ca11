"""What the figures of training do and do not show, in plain sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rldf_ray.stats import LEAST_CLUSTERS
from rldf_ray.storage.stages import begins_as

COIN_LOSS = math.log(2)
"""Loss of a reward model that does not separate chosen from rejected."""
UNFITTED = 0.25
"""Loss on its own pairs above which a reward model may be short of training: at .3 to .6 they did
not generalise to scenes nobody debated, at .05, after more passes, they did (docs/compare.md)."""

TAUGHT = {
    "right_over_wrong": "names that the clue does not tell",
    "right_over_unknown": "not to answer where the clue tells",
    "unknown_over_names": "to name somebody where nothing is known",
}
"""What follows where a reward model prefers the worse answer on half of the scenes or more."""

Saved = Mapping[str, Any]
"""A plan, as report.json has it."""


def follows_reward_model(plan: Saved) -> bool:
    """Whether PPO trains the plan's policy against the run's reward model."""
    rewards = plan["ppo"]["rewards"] if "ppo" in plan["train"]["after"] else ()
    return any(source["model"] is not None for source in rewards)


def sft_notes(sft: Mapping[str, Any] | None) -> Iterator[str]:
    """What SFT did not learn from, and how far it went."""
    if sft is not None and sft.get("passes"):
        yield (
            f"SFT ended after pass {sft['passes']}: of all its passes the one with the lowest loss "
            f"on {sft['held_out']} held-out examples."
        )
    if sft is not None and sft["too_long"]:
        yield (
            f"{sft['too_long']} of {sft['examples'] + sft['too_long']} examples were left out of "
            "SFT: their prompts alone are as long as sft.max_length."
        )


def is_unproven(reward: Mapping[str, Any]) -> bool:
    """Whether a coin could have what the reward model has on held-out pairs.

    False where none were held out, and nothing is known.
    """
    low: float | None = reward["accuracy_low"]
    return reward["accuracy"] is not None and (low is None or low <= 0.5)


def reward_notes(reward: Mapping[str, Any] | None, plan: Saved) -> Iterator[str]:
    """What the held-out pairs and the pairs it was trained on say of a reward model."""
    if reward is None:
        return
    if reward["too_long"]:
        given = reward["pairs"] + reward["held_out_pairs"] + reward["too_long"]
        yield (
            f"{reward['too_long']} of {given} pairs were left out of the reward model: cut to "
            "reward.max_length, their sides are the same."
        )
    if reward["accuracy"] is not None:
        yield _on_held_out_pairs(reward, plan)
    if reward["loss_end"] > UNFITTED:
        yield (
            f"The loss of the reward model on its own pairs is {reward['loss_end']:.2f} at its end "
            f"(a coin has {COIN_LOSS:.2f}): it has not learned all of them, and more reward.epochs "
            "may be all it lacks."
        )
    if reward["undebated"] is not None:
        yield _on_undebated_scenes(reward["undebated"], follows_reward_model(plan))


def _on_held_out_pairs(reward: Mapping[str, Any], plan: Saved) -> str:
    accuracy = _on_pairs(reward)
    if reward["accuracy_low"] is None and not _of_enough_topics(reward):
        return (
            "The held-out pairs are of too few topics to show that the reward model is better than "
            f"a coin (accuracy {accuracy})."
        )
    if is_unproven(reward):
        rewards = "the rewards PPO follows" if follows_reward_model(plan) else "its rewards"
        return (
            "The reward model is not shown to be better than a coin on held-out pairs "
            f"(accuracy {accuracy}): {rewards} may be mostly noise."
        )
    agrees = (
        f"The reward model agrees with the preferences in held-out pairs (accuracy {accuracy}); "
        "that says how well it learned them, not how good they are."
    )
    if plan["reward"]["start"] != "sft":
        return agrees
    taught = reward.get("held_out_taught")
    learned = {
        None: "may have learned from answers on these topics, too: that would flatter it",
        0: "has learned from answers on none of these topics",
    }.get(taught, f"has learned from answers on {taught} of these topics, too: that flatters it")
    return f"{agrees} It began as the SFT model, which {learned}."


def _of_enough_topics(part: Mapping[str, Any]) -> bool:
    """Whether an accuracy without an interval has none as it is the same on every topic."""
    topics: int | None = part.get("held_out_topics")
    return topics is not None and topics >= LEAST_CLUSTERS


def _on_pairs(part: Mapping[str, Any]) -> str:
    """'0.80 on 50 held-out pairs of 12 topics'."""
    topics = part.get("held_out_topics")
    of = {None: ", taken as independent", 1: " of 1 topic"}.get(topics, f" of {topics} topics")
    return f"{part['accuracy']:.2f} on {part['held_out_pairs']} held-out pairs{of}"


def _on_undebated_scenes(undebated: Mapping[str, Any], is_followed: bool) -> str:
    """A share whose whole interval is on the wrong side will be taught, another one may be."""
    shares = {name: undebated[name]["value"] for name in TAUGHT}
    preferences = (
        f"On {undebated['scenes']} scenes nobody debated the reward model prefers, with the clue, "
        f"the right name to the wrong one in {shares['right_over_wrong']:.2f} and to "
        f'"not known" in {shares["right_over_unknown"]:.2f}; without it, "not known" to both names '
        f"in {shares['unknown_over_names']:.2f}"
    )
    wrong = [name for name, share in shares.items() if share <= 0.5]
    sure = [name for name in wrong if _is_below_half(undebated[name])]
    unsure = [name for name in wrong if name not in sure]
    ppo, will = ("PPO", "will") if is_followed else ("PPO against it", "would")
    taught = [
        *([f"{ppo} {will} teach {_listed(sure)}"] if sure else []),
        *([f"{'it' if sure else ppo} may teach {_listed(unsure)}"] if unsure else []),
    ]
    return f"{preferences}: {'; '.join(taught)}." if taught else f"{preferences}."


def _is_below_half(share: Mapping[str, Any]) -> bool:
    high: float | None = share.get("high")
    return high is not None and high <= 0.5


def _listed(names: Sequence[str]) -> str:
    return ", and ".join(TAUGHT[name] for name in names)


def ppo_notes(ppo: Mapping[str, Any] | None, plan: Saved) -> Iterator[str]:
    """How much PPO did, and how far from its start it ended."""
    if ppo is None:
        return
    began_as, kl = begins_as("ppo", plan["train"]["after"]).upper(), ppo["kl_last"]
    away = (
        f"the KL of the last rollout to the {began_as} model is no finite number"
        if kl is None
        else f"the last rollout was {kl:.3g} nats an answer away from the {began_as} model"
    )
    yield f"PPO made {ppo['episodes']} episodes in {ppo['steps']} steps; {away}."


def preference_notes(name: str, part: Mapping[str, Any] | None) -> Iterator[str]:
    """What the held-out pairs say of a policy that learned from the others by DPO or KTO."""
    if part is None:
        return
    title = name.upper()
    if part["too_long"]:
        given = part["pairs"] + part["held_out_pairs"] + part["too_long"]
        yield (
            f"{part['too_long']} of {given} pairs were left out of {title}: cut to "
            f"{name}.max_length, their sides are the same."
        )
    if part["accuracy"] is None:
        return
    accuracy = f"accuracy of its implicit reward {_on_pairs(part)}"
    if is_unproven(part):
        few = ""
        if part["accuracy_low"] is None:
            few = "; the same on every topic" if _of_enough_topics(part) else "; too few topics"
        yield (
            f"{title} is not shown to have learned what tells the sides of held-out pairs apart "
            f"({accuracy}{few}; a coin has .50)."
        )
    else:
        yield (
            f"{title} has made chosen answers of held-out pairs gain more likelihood than rejected "
            f"ones, or lose less of it, than in the model it began as ({accuracy}); that says how "
            "well it learned these preferences, not how good they are."
        )
