"""What a run's numbers do and do not show, in plain sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def notes_of(report: Mapping[str, Any]) -> list[str]:
    """The report's notes: referee, labels, reward model, PPO, evaluation, in that order."""
    return [*_referee(report), *_reward(report), *_ppo(report), *_evaluation(report)]


def _referee(report: Mapping[str, Any]) -> Iterator[str]:
    audit, debates = report["referee"], report["debates"]
    if audit is None:
        yield "The referee was not audited, so nothing is known of how good its labels are."
        return
    yield audit["verdict"]
    if audit["distinct_said_scores"] == 1:
        yield (
            "The referee said the same score for every labelled statement; only its expected score "
            "varies."
        )
    if debates is not None and report["plan"]["referee"]["label_source"] == "expected":
        said = debates["label_sources"].get("said", 0)
        if said:
            yield (
                f"{said} statements are labelled by the score the referee said, though the plan "
                "wants its expectation: its endpoint told no probabilities."
            )
    if debates is not None and report["plan"]["referee"]["threshold_kind"] == "relative":
        yield (
            f"Labels are relative to the round: {debates['high']} statements are called high bias "
            "because the others of their round scored lower, however mild they are."
        )


def _reward(report: Mapping[str, Any]) -> Iterator[str]:
    reward = report["training"]["reward"]
    if reward is None or reward["accuracy"] is None:
        return
    low, n = reward["accuracy_low"], reward["held_out_pairs"]
    found = f"{reward['accuracy']:.2f} on {n} held-out pairs"
    if low is not None and low <= 0.5:
        yield (
            f"The reward model is not shown to be better than a coin on pairs it has not seen "
            f"(accuracy {found}): the rewards PPO follows are mostly noise."
        )
    else:
        yield (
            f"The reward model agrees with the referee's labels (accuracy {found}); that says how "
            "well it learned them, not how good they are."
        )


def _ppo(report: Mapping[str, Any]) -> Iterator[str]:
    ppo = report["training"]["ppo"]
    if ppo is not None:
        yield (
            f"PPO made {ppo['episodes']} episodes in {ppo['steps']} steps; the last rollout was "
            f"{ppo['kl_last']:.3g} nats an answer away from the SFT model."
        )


def _evaluation(report: Mapping[str, Any]) -> Iterator[str]:
    evaluation = report["evaluation"]
    if evaluation is None:
        yield "The models were not evaluated."
        return
    for name, change in evaluation["accuracy_change"].items():
        if change is None:
            continue
        low, high = change["low"], change["high"]
        moved = f"{100 * change['value']:+.1f} points on {change['n']} items"
        if low is None or high is None:
            yield f"Accuracy of {name} against base: {moved}; the same on every one of them."
        elif low <= 0 <= high:
            yield (
                f"Accuracy of {name} against base: {moved}, 95 % interval {100 * low:+.1f} to "
                f"{100 * high:+.1f}: no difference beyond noise is shown."
            )
        else:
            yield (
                f"Accuracy of {name} against base: {moved}, 95 % interval {100 * low:+.1f} to "
                f"{100 * high:+.1f}."
            )
    rewards = {name: m["reward"] for name, m in evaluation["models"].items()}
    if rewards.get("base") and rewards.get("policy"):
        yield (
            "Rewards on held-out prompts come from the run's own reward model, which PPO was "
            "trained against: a higher reward is no evidence of less bias by itself."
        )
    yield "One run with one seed: differences between runs were not measured."
