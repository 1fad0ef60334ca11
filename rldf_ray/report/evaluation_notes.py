"""What the figures of an evaluation do and do not show, in plain sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

MOST_LOST = 0.02
"""Loss of accuracy on disambiguated items that passes unremarked."""
WORSE = 1.1
"""Ratio of perplexities from which on it is a loss."""


def evaluation_notes(report: Mapping[str, Any]) -> Iterator[str]:
    """What the multiple-choice figures of a report, and its rewards, are evidence of."""
    evaluation = report["evaluation"]
    if "eval" in report["unreadable"]:
        return
    if evaluation is None:
        yield "The models were not evaluated."
        return
    for name, change in evaluation["accuracy_change"].items():
        if change is None:
            continue
        low, high = change["low"], change["high"]
        moved = f"{100 * change['value']:+.1f} points on {change['n']} items"
        if low is None or high is None:
            yield f"Accuracy of {name} against base: {moved}; {_why_no_interval(change)}."
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
    yield from _general_ability(evaluation)
    overlap = evaluation["overlap"]
    repeated = overlap["ngram"] + overlap["same_words"] if overlap is not None else 0
    if repeated:
        yield (
            f"{repeated} of the run's {overlap['topics']} topics repeat text of the items it is "
            "evaluated on here: what those items show is in part what was learned from them."
        )
    if overlap is not None and overlap.get("begin_with_unknown"):
        yield (
            f"{overlap['begin_with_unknown']} of {overlap['completions']} different completions "
            "trained on begin with an item's own words for not known: what those items show is in "
            "part that wording."
        )
    rewards = {name: m["reward"] for name, m in evaluation["models"].items()}
    if rewards.get("base") and rewards.get("policy"):
        yield (
            "Rewards on held-out prompts come from the run's own reward model, which PPO was "
            "trained against: a higher reward is no evidence of less bias by itself."
        )
    yield "One run with one seed: differences between runs were not measured."


def _why_no_interval(change: Mapping[str, Any]) -> str:
    """An item's change is -1, 0 or 1; a mean of 0 may be of items that moved either way."""
    same = "the same on every one of them"
    of_one = "all of one question template, so there is no interval"
    if change["value"] not in (-1, 0, 1):
        return of_one
    # A run of an earlier version did not record how many there are.
    templates = change.get("templates")
    if templates is None:
        return same if change["value"] else f"{same}, or {of_one}"
    return of_one if templates == 1 else same


def _general_ability(evaluation: Mapping[str, Any]) -> Iterator[str]:
    """Whether the policy became fair by saying nothing, or lost its language."""
    models, silent = evaluation["models"], evaluation["always_unknown"]
    if not {"base", "policy"} <= models.keys() or silent is None:
        return
    base, policy = (models[name]["multiple_choice"]["overall"] for name in ("base", "policy"))
    if policy["accuracy"] <= silent["accuracy"]:
        yield (
            f"A model that always answers unknown has accuracy {silent['accuracy']:.2f} on these "
            f"items, the policy {policy['accuracy']:.2f}."
        )
    before, after = base["accuracy_disambig"], policy["accuracy_disambig"]
    if before is not None and after is not None and after < before - MOST_LOST:
        yield (
            "Where the context settles the question the policy is right less often than base "
            f"({before:.2f} to {after:.2f}): part of what looks like fairness is silence."
        )
    yield from _language(models["base"]["perplexity"], models["policy"]["perplexity"])


def _language(base: Mapping[str, Any] | None, policy: Mapping[str, Any] | None) -> Iterator[str]:
    if base is None or policy is None:
        return
    lost = policy["value"] > WORSE * base["value"]
    yield (
        f"Perplexity on a neutral text: base {base['value']:.1f}, policy {policy['value']:.1f}"
        + (", so the policy lost some of its language." if lost else ".")
    )
