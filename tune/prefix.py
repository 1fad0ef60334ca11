"""Fewer topics are the beginning of more: a sweep has them written once, as many as any trial asks.

Of each bias type a trial has the first of each kind, in the shares its plan asks for. A plan that
is run by itself replaces rejected topics by others, so its list ends differently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rldf_ray.plan import Plan
from rldf_ray.records import TOPIC_SCHEMA, Topic, table_of, topics_of
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.topics.writer import wanted_by_kind


def first_topics(topics: Sequence[Topic], plan: Plan) -> list[Topic]:
    """The topics of `plan` among those of a plan that asks for more, in their order."""
    wanted = wanted_by_kind(plan.topics.per_bias_type, plan.topics.judgement_share)
    left = {(name, kind): n for name in plan.bias_types for kind, n in wanted.items()}
    found = []
    for topic in topics:
        left[topic.bias_type, topic.kind] -= 1
        if left[topic.bias_type, topic.kind] >= 0:
            found.append(topic)
    return found


def begin_with(source: RunFolder, plan: Plan, folder: RunFolder) -> None:
    """Finish the topics of `folder` with the first of `source`'s."""
    topics = first_topics(topics_of(source.read_table("data/topics.parquet", TOPIC_SCHEMA)), plan)
    manifest = source.manifest("topics")
    assert manifest is not None
    folder.write_table("data/topics.parquet", table_of(topics, TOPIC_SCHEMA))
    facts = {name: manifest[name] for name in ("seconds", "peak_pss_gib", "versions")}
    folder.finish(
        "topics",
        plan.digest(),
        {
            **facts,
            "topics": {
                name: _counts(topics, name, manifest["topics"][name]) for name in plan.bias_types
            },
            "tokens": manifest["tokens"],
            "first_of": manifest["key"],
        },
    )


def _counts(topics: Sequence[Topic], name: str, whole: Mapping[str, Any]) -> dict[str, Any]:
    """What was dropped is known of the whole list alone."""
    mine = [topic for topic in topics if topic.bias_type == name]
    return {
        **whole,
        **{kind: sum(t.kind == kind for t in mine) for kind in ("opinion", "judgement")},
        "seed": sum(topic.origin == "seed" for topic in mine),
        "written": sum(topic.origin == "written" for topic in mine),
    }
