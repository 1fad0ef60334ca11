"""Scenes with their clue as questions of persuasion: debaters read the scene, the judge does not.

Without its clue a scene has no correct answer, and so no correct side. A run learns what the
correct side said, without its quotation marks: arguments that the judge believed, and the best
rated of several candidates against the worst. The other side's arguments, however persuasive, are
nobody's example.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rldf_ray.plan import Plan
from rldf_ray.protocols.persuasion.folder import study_data
from rldf_ray.protocols.persuasion.settings import PersuasionSettings
from rldf_ray.protocols.persuasion.training import (
    TrainingData,
    choices,
    said,
    training_data,
    winning,
)
from rldf_ray.protocols.persuasion.transcript import PersuasionItem
from rldf_ray.records import Debate, scene_of
from rldf_ray.storage.run_folder import RunFolder

FROM_TOPICS = (
    "kind",
    "data",
    "stories",
    "categories",
    "items",
    "per_story",
    "hard",
    "story_tokens",
)
DEBATER, BEST_OF = "debater", 4
_QUOTE = re.compile(r"</?(?:[vu]_)?quote>")


def defaults(judge: str) -> dict[str, Any]:
    """Debates of the debaters' model with itself, which chooses each argument from several."""
    return {
        "protocols": ("debate",),
        "debaters": {DEBATER: {"model": "debate", "best_of": BEST_OF}},
        "judges": (judge,),
    }


def problem(plan: Plan) -> str | None:
    """An opinion has no correct answer, and a single candidate is compared with none."""
    if plan.topics.judgement_share < 1:
        return (
            f"topics.judgement_share={plan.topics.judgement_share:g} with "
            "debate.protocol=persuasion: it debates answers of which one is correct, which "
            "opinions do not have; allowed: 1"
        )
    settings = plan.debate.settings or {}
    if settings.get("matches") == "swiss":
        return (
            "debate.settings.matches=swiss: its later rounds wait for the verdicts of all scenes; "
            "allowed: self, round_robin"
        )
    debaters = settings.get("debaters") or {}
    for name, one in debaters.items():
        # What is given of the default debater is merged with its defaults.
        unsaid = BEST_OF if name == DEBATER else 1
        if not isinstance(one, Mapping) or one.get("best_of", unsaid) < 2:
            return (
                f"debate.settings.debaters.{name}.best_of: pairs are the best and the worst of "
                "several candidates; allowed: 2 or more"
            )
    return None


def item_of(instance: Debate, plan: Plan) -> PersuasionItem | None:
    """A scene with its clue, which the judge is not shown; None without it."""
    topic = instance.topic
    assert topic.groups is not None and topic.question is not None and topic.answer is not None
    if not instance.clue_shown:
        return None
    (other,) = (group for group in topic.groups if group != topic.answer)
    return PersuasionItem(
        item_id=instance.debate_id,
        group=topic.topic_id,
        story=scene_of(topic, clue_shown=True),
        question=topic.question,
        correct=topic.answer,
        incorrect=other,
        category=topic.bias_type,
    )


def failure(outcome: Mapping[str, Any]) -> str | None:
    """A debate without an argument, or a verdict that is none."""
    if outcome["failure"] is not None:
        return "no argument"
    return "no verdict" if outcome["letter"] is None else None


def training_rows(
    folder: RunFolder, settings: PersuasionSettings, seed: int
) -> dict[str, Iterator[dict[str, object]]]:
    """What the correct side said: `sft` and `pairs`, each with its `item_id`."""
    held = study_data(folder)
    data = training_data(held.items, held.tables, settings)
    return {
        "sft": (
            {"item_id": place[0], "completion": said(_plain(final["text"]))}
            for place, final in winning(data)
        ),
        "pairs": _pairs(data),
    }


def _pairs(data: TrainingData) -> Iterator[dict[str, object]]:
    """The correct side's best argument of a choice against its worst, where their words differ."""
    for place, stage, best, worst in choices(data):
        chosen, rejected = _plain(best["text"]), _plain(worst["text"])
        if place[3] == "correct" and stage != "critique" and chosen != rejected:
            yield {"item_id": place[0], "chosen": said(chosen), "rejected": said(rejected)}


def _plain(text: str) -> str:
    return _QUOTE.sub("", text).strip()
