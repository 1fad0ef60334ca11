"""What a run's numbers do and do not show, in plain sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from rldf_ray.report.evaluation_notes import evaluation_notes
from rldf_ray.report.training_parts import preference_part, reward_part, sft_part
from rldf_ray.storage.results import DPOResult, KTOResult, Result, RewardResult, SFTResult
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


def notes_of(report: Mapping[str, Any]) -> list[str]:
    """On unreadable parts and tokens, then on each stage in its order."""
    parts = (
        _unreadable,
        _tokens,
        _referee,
        _data,
        _sft,
        _reward,
        _ppo,
        _preference,
        evaluation_notes,
    )
    return [note for part in parts for note in part(report)]


def stage_notes(result: Result) -> Iterator[str]:
    """What a stage's result says that one should know before the next stage begins.

    The reward model's notes come here too, as PPO is what costs most.
    """
    if isinstance(result, SFTResult):
        yield from sft_notes(sft_part(result))
    if isinstance(result, RewardResult):
        yield from reward_notes(reward_part(result))
    if isinstance(result, DPOResult | KTOResult):
        yield from preference_notes(result.STAGE, preference_part(result))


def _unreadable(report: Mapping[str, Any]) -> Iterator[str]:
    for why in report["unreadable"].values():
        yield f"Not in this report: {why}."


def _tokens(report: Mapping[str, Any]) -> Iterator[str]:
    used = [stage["tokens"] for stage in report["stages"] if stage["tokens"]]
    counted = sum(tokens.get("by_characters", 0) for tokens in used)
    if counted:
        whole = sum(tokens["prompt"] + tokens["generated"] for tokens in used)
        yield (
            f"{counted} of {whole} tokens are counted by the characters of the texts, as the "
            "endpoint did not report them: figures of tokens and cost are estimates."
        )


def _referee(report: Mapping[str, Any]) -> Iterator[str]:
    audit, debates = report["referee"], report["debates"]
    if debates is not None and debates.get("source"):
        yield (
            f"The data come from the protocol {debates['source']}, which has preferences of its "
            "own: the referee scored none of them (docs/sources.md)."
        )
        debates = None
    if "audit" in report["unreadable"]:
        return
    if audit is None:
        yield "The referee was not audited, so nothing is known of how good its labels are."
        return
    section = report["plan"]["referee"]
    if section["judgements"] == "matched":
        yield (
            "Labels on scenes are verifiable answers: they say whether the answer that was chosen "
            "is what the scene's record lets one conclude, and not how strongly it stereotypes."
        )
        if report["plan"]["topics"]["judgement_share"] == 1:
            return
    yield audit["verdict"]
    if audit["distinct_said_scores"] == 1:
        yield (
            "The referee said the same score for every labelled statement; only its expected score "
            "varies."
        )
    if debates is not None and report["plan"]["referee"]["label_source"] == "expected":
        by_said_score = debates["label_sources"].get("said", 0)
        if by_said_score:
            yield (
                f"{by_said_score} statements are labelled by the score the referee said, though "
                "the plan wants its expectation: its endpoint reported no probabilities."
            )
    if debates is not None and report["plan"]["referee"]["threshold_kind"] == "relative":
        yield (
            f"Labels are relative to the round: {debates['high']} statements are called high bias "
            "because the others of their round scored lower, however mild they are."
        )


def _data(report: Mapping[str, Any]) -> Iterator[str]:
    if report["data"] is not None:
        if report["data"]["imported"] is not None:
            given = report["data"]["imported"]
            yield f"The pairs were given ({given}): no debate was held for them."
        yield from report["data"]["quality"]["warnings"]


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
    """Whether a coin could have what the reward model has on pairs it has not seen.

    False where none were held out, and nothing is known.
    """
    low: float | None = reward["accuracy_low"]
    return reward["accuracy"] is not None and (low is None or low <= 0.5)


def reward_notes(reward: Mapping[str, Any] | None) -> Iterator[str]:
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
        yield _on_held_out_pairs(reward)
    if reward["loss_end"] > UNFITTED:
        yield (
            f"The loss of the reward model on its own pairs is {reward['loss_end']:.2f} at its end "
            f"(a coin has {COIN_LOSS:.2f}): it has not learned all of them, and more reward.epochs "
            "may be all it lacks."
        )
    if reward["undebated"] is not None:
        yield _on_undebated_scenes(reward["undebated"])


def _on_held_out_pairs(reward: Mapping[str, Any]) -> str:
    accuracy = _on_pairs(reward)
    if reward["accuracy_low"] is None:
        return (
            "The held-out pairs are of too few topics to show that the reward model is better than "
            f"a coin on pairs it has not seen (accuracy {accuracy})."
        )
    if is_unproven(reward):
        return (
            f"The reward model is not shown to be better than a coin on pairs it has not seen "
            f"(accuracy {accuracy}): the rewards PPO follows are mostly noise."
        )
    return (
        f"The reward model agrees with the referee's labels (accuracy {accuracy}); that says how "
        "well it learned them, not how good they are."
    )


def _on_pairs(part: Mapping[str, Any]) -> str:
    """'0.80 on 50 held-out pairs of 12 topics'."""
    topics = part.get("held_out_topics")
    of = {None: ", taken as independent", 1: " of 1 topic"}.get(topics, f" of {topics} topics")
    return f"{part['accuracy']:.2f} on {part['held_out_pairs']} held-out pairs{of}"


def _on_undebated_scenes(undebated: Mapping[str, Any]) -> str:
    shares = {
        name: undebated[name]["value"]
        for name in ("right_over_wrong", "right_over_unknown", "unknown_over_names")
    }
    preferences = (
        f"On {undebated['scenes']} scenes nobody debated the reward model prefers, with the clue, "
        f"the right name to the wrong one in {shares['right_over_wrong']:.2f} and to "
        f'"not known" in {shares["right_over_unknown"]:.2f}; without it, "not known" to both names '
        f"in {shares['unknown_over_names']:.2f}"
    )
    taught = [TAUGHT[name] for name, share in shares.items() if share <= 0.5]
    return (
        f"{preferences}: PPO will teach {', and '.join(taught)}." if taught else f"{preferences}."
    )


def _sft(report: Mapping[str, Any]) -> Iterator[str]:
    return sft_notes(report["training"]["sft"])


def _reward(report: Mapping[str, Any]) -> Iterator[str]:
    return reward_notes(report["training"]["reward"])


def _ppo(report: Mapping[str, Any]) -> Iterator[str]:
    ppo = report["training"]["ppo"]
    if ppo is not None:
        yield (
            f"PPO made {ppo['episodes']} episodes in {ppo['steps']} steps; the last rollout was "
            f"{ppo['kl_last']:.3g} nats an answer away from the {_before_ppo(report)} model."
        )


def _before_ppo(report: Mapping[str, Any]) -> str:
    return begins_as("ppo", report["plan"]["train"]["after"]).upper()


def _preference(report: Mapping[str, Any]) -> Iterator[str]:
    for name in ("dpo", "kto"):
        yield from preference_notes(name, report["training"].get(name))


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
    accuracy = _on_pairs(part)
    if is_unproven(part):
        few = "; too few topics" if part["accuracy_low"] is None else ""
        yield (
            f"{title} is not shown to have learned what tells the sides of pairs apart that it has "
            f"not seen (accuracy of its implicit reward {accuracy}{few}; a coin has .50)."
        )
    else:
        yield (
            f"{title} has made chosen answers likelier than rejected ones on pairs it has not seen "
            f"(accuracy of its implicit reward {accuracy}); that says how well it learned the "
            "referee's labels, not how good they are."
        )
