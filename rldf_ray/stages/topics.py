"""The topics stage: seeds and the model's own topics."""

from __future__ import annotations

from typing import Any

from rldf_ray.records import (
    TOPIC_SCHEMA,
    table_of,
)
from rldf_ray.stages.run import Run, tokens_since
from rldf_ray.storage.results import TopicsResult
from rldf_ray.topics.writer import TopicWriter


def topics(run: Run) -> TopicsResult:
    """Seeds and the model's own topics, without near-duplicates -> data/topics.parquet."""
    from rldf_ray.evaluate.contamination import texts_to_avoid

    before = run.speakers.usage, run.speakers.paid_usage
    writer = TopicWriter(run.plan, run.speakers.of("topics"), texts_to_avoid(run.plan))
    gathered, counts = run.speakers.run(writer.gather())
    run.folder.write_table("data/topics.parquet", table_of(gathered, TOPIC_SCHEMA))
    by_type: dict[str, Any] = {}
    for name in run.plan.bias_types:
        mine = [topic for topic in gathered if topic.bias_type == name]
        rejected = counts[name].rejected
        by_type[name] = {
            "opinion": sum(topic.kind == "opinion" for topic in mine),
            "judgement": sum(topic.kind == "judgement" for topic in mine),
            "seed": counts[name].seed,
            "written": counts[name].written,
            "duplicates_dropped": counts[name].duplicates_dropped,
            "overlaps_dropped": counts[name].overlaps_dropped,
            "rejected": sum(rejected.values()),
            "rejected_why": rejected,
        }
    return TopicsResult(topics=by_type, **tokens_since(run, before))
