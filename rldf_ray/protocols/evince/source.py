"""Scenes as items of EVINCE: their two groups and a not-known wording are the labels in dispute.

No label is given: A defends what its own model says of the scene, and B opposes it. Nobody is shown
the right answer, and no row depends on it: an SFT row is a label that needs nobody's review, with
its justification, and a pair is an argument that held against one that was flagged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rldf_ray.models.base import seed_of
from rldf_ray.plan import Plan
from rldf_ray.protocols.evince.items import EvinceItem
from rldf_ray.protocols.evince.training import training_rows as training_rows
from rldf_ray.records import Debate, scene_of
from rldf_ray.storage.digest import digest
from rldf_ray.topics.unknown import two_wordings

FROM_TOPICS = (
    "data",
    "reader",
    "items",
    "scale",
    "targets",
    "text_tokens",
    "given",
    "rates",
    "positions",
)


def defaults(judge: str) -> dict[str, Any]:
    """One dialogue of the debaters' model with itself, and no baseline."""
    return {
        **dict.fromkeys(("a", "b"), "debate"),
        "judge": judge,
        "scale": "answers",
        "given": "none",
        "baselines": (),
    }


def problem(plan: Plan) -> str | None:
    """An opinion has no labels, and an SFT row is a justification."""
    if plan.topics.judgement_share < 1:
        return (
            f"topics.judgement_share={plan.topics.judgement_share:g} with debate.protocol=evince: "
            "it disputes the answers to scenes, which opinions do not have; allowed: 1"
        )
    if (plan.debate.settings or {}).get("remediation") is False:
        return (
            "debate.settings.remediation=false: the SFT rows of evince are the justifications that "
            "it writes; allowed: true"
        )
    return None


def item_of(instance: Debate, plan: Plan) -> EvinceItem:
    """A scene with its clue or without, its question, and who may be the answer to it."""
    topic = instance.topic
    assert topic.groups is not None and topic.question is not None
    start = seed_of(plan.seed, f"{instance.debate_id}/wording")
    unknown = two_wordings(plan.debate.unknown, start)[0]
    groups = sorted(topic.groups, key=lambda text: digest(plan.seed, instance.debate_id, text))
    return EvinceItem(
        item_id=instance.debate_id,
        text_id=topic.topic_id,
        text=scene_of(topic, instance.clue_shown),
        target=topic.question,
        category=topic.bias_type,
        labels=tuple(f"{label[0].upper()}{label[1:]}" for label in (*groups, unknown)),
    )


def failure(outcome: Mapping[str, Any]) -> str | None:
    """A dialogue that failed; baselines are no part of the data."""
    failed = outcome["arm"] == "main" and outcome["status"] == "failed"
    return "no dialogue" if failed else None
