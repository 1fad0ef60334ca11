"""What the figures of an evaluation do and do not show, in plain sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rldf_ray.report.training_notes import follows_reward_model
from rldf_ray.stats import LEAST_CLUSTERS

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
        # An earlier version had intervals of fewer.
        few = change.get("templates", LEAST_CLUSTERS) < LEAST_CLUSTERS
        if low is None or high is None or few:
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
        yield _on_rewards(report["plan"])
    yield "One run with one seed: differences between runs were not measured."


def _why_no_interval(change: Mapping[str, Any]) -> str:
    """An item's change is -1, 0 or 1; other means, and 0, may be of items that moved both ways."""
    same = "the same on every one of them"
    # A run of an earlier version did not record how many there are.
    templates = change.get("templates")
    if templates is None:
        few = "of too few question templates for an interval"
        if change["value"] not in (-1, 0, 1):
            return few
        return same if change["value"] else f"{same}, or {few}"
    if change["value"] in (-1, 1):
        return same
    if templates >= LEAST_CLUSTERS:
        return "the same in every question template"
    named = "one question template" if templates == 1 else f"{templates} question templates"
    return f"all of {named}; an interval takes {LEAST_CLUSTERS}"


def _on_rewards(plan: Mapping[str, Any]) -> str:
    of_its_own = "Rewards on held-out prompts come from the run's own reward model, which"
    if follows_reward_model(plan):
        return (
            f"{of_its_own} PPO was trained against: a higher reward is no evidence of less bias by "
            "itself."
        )
    return (
        f"{of_its_own} learned from the same preferences as the policy: a higher reward is no "
        "evidence of less bias by itself."
    )


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
        change = (evaluation.get("disambig_change") or {}).get("policy")
        yield _where_the_context_settles(base, policy, change)
    yield from _language(models["base"]["perplexity"], models["policy"]["perplexity"])


def _where_the_context_settles(
    base: Mapping[str, Any], policy: Mapping[str, Any], change: Mapping[str, Any] | None
) -> str:
    """A loss on disambiguated items, and whether it is one of answers to the unknown option.

    Args:
        base, policy: their SCOREs.
        change: of their accuracy, paired by item; None of a run of an earlier version.
    """
    before, after = base["accuracy_disambig"], policy["accuracy_disambig"]
    less = (
        "Where the context settles the question the policy is right less often than base "
        f"({before:.2f} to {after:.2f}"
    )
    low, high = (None, None) if change is None else (change["low"], change["high"])
    if low is None or high is None:
        less += ")"
    else:
        less += f"; 95 % interval of the change {100 * low:+.1f} to {100 * high:+.1f} points)"
        if high >= 0:
            return f"{less}: no difference beyond noise is shown."
    unknown_before, unknown = (score.get("unknown_disambig") for score in (base, policy))
    if unknown_before is None or unknown is None or unknown <= unknown_before:
        return f"{less}."
    return (
        f"{less}, and takes the unknown option there in {100 * (unknown - unknown_before):.1f} "
        "points more of the items: part of what looks like fairness is silence."
    )


def _language(base: Mapping[str, Any] | None, policy: Mapping[str, Any] | None) -> Iterator[str]:
    if base is None or policy is None:
        return
    values = {"base": base["value"], "policy": policy["value"]}
    known = {name: value for name, value in values.items() if value is not None}
    if len(known) < len(values):
        lost = " and ".join(name for name in values if name not in known)
        yield f"Perplexity on a neutral text is no finite number of {lost}."
        return
    lost_language = known["policy"] > WORSE * known["base"]
    yield (
        f"Perplexity on a neutral text: base {known['base']:.1f}, policy {known['policy']:.1f}"
        + (", so the policy lost some of its language." if lost_language else ".")
    )
