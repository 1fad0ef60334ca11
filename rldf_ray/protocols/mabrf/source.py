"""Topics as items of MABRF: a scene's two groups and a not-known wording are the answer options.

An opinion is a free question. The right answer is not shown to anybody; as in a study, steps become
an SFT row where the answer given by them is right, so an opinion gives pairs alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rldf_ray.models.base import seed_of
from rldf_ray.plan import Plan
from rldf_ray.protocols.mabrf.folder import results_in
from rldf_ray.protocols.mabrf.items import MabrfItem
from rldf_ray.protocols.mabrf.settings import MabrfSettings
from rldf_ray.protocols.mabrf.training import Row, pairs_of, sft_rows
from rldf_ray.records import Debate, scene_of
from rldf_ray.storage.digest import digest
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.topics.unknown import two_wordings

FROM_TOPICS = (
    "kind",
    "data",
    "categories",
    "only",
    "per_category",
    "items",
    "leave_out_gold",
    "squad",
)


def defaults(judge: str) -> dict[str, Any]:
    """One arm without search, and no verdicts that only measure the judge."""
    roles = ("solver", "rephraser", "searcher", "terminator")
    return {
        "kind": "choices",
        **dict.fromkeys(roles, "debate"),
        "judge": judge,
        "loop": {"retests": 0},
    }


def problem(plan: Plan) -> str | None:
    """An opinion has no right answer, and so no SFT row."""
    if plan.topics.judgement_share > 0:
        return None
    return (
        "topics.judgement_share=0 with debate.protocol=mabrf: its SFT rows are answers that are "
        "right, which opinions do not have; allowed: above 0"
    )


def item_of(instance: Debate, plan: Plan) -> MabrfItem:
    """A scene with options in an order of the seed, or an opinion as a question without any."""
    topic = instance.topic
    if topic.kind == "opinion":
        return MabrfItem(
            item_id=instance.debate_id,
            group=topic.topic_id,
            category=topic.bias_type,
            question=topic.text,
        )
    assert topic.groups is not None and topic.question is not None
    start = seed_of(plan.seed, f"{instance.debate_id}/wording")
    unknown = two_wordings(plan.debate.unknown, start)[0]
    options = sorted(
        (*topic.groups, unknown), key=lambda text: digest(plan.seed, instance.debate_id, text)
    )
    label = topic.answer if instance.clue_shown else unknown
    return MabrfItem(
        item_id=instance.debate_id,
        group=topic.topic_id,
        category=topic.bias_type,
        context=scene_of(topic, instance.clue_shown),
        question=topic.question,
        options=tuple(options),
        label=options.index(label) if label in options else None,
        unknown=options.index(unknown),
    )


def failure(outcome: Mapping[str, Any]) -> str | None:
    """No first steps, or a verdict that did not parse."""
    stop: str = outcome["stop"]
    return {"failed": "no steps", "no verdict": "no verdict"}.get(stop)


def training_rows(
    folder: RunFolder, settings: MabrfSettings, seed: int
) -> Mapping[str, Iterator[Row]]:
    """The study's own, each with its `item_id`: both scenes of a topic have its id as group."""
    results = results_in(folder, settings, seed)
    return {
        "sft": sft_rows(results),
        "pairs": (
            {"item_id": item.item_id, **row}
            for item in results.items
            for row in pairs_of(item, results)
        ),
    }
