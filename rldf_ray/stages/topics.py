"""The topics stage: seeds and the model's own topics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import UNSET

from rldf_ray.dataset.preference_data import prompts_table
from rldf_ray.plan import Plan
from rldf_ray.protocols.known import protocol_named, source_names
from rldf_ray.protocols.multirole import items as source_instances
from rldf_ray.records import TOPIC_SCHEMA, Topic, table_of
from rldf_ray.referee.audit import KINDS
from rldf_ray.stages.data import check_splits
from rldf_ray.stages.run import Run, StageError, tokens_since
from rldf_ray.storage.results import TopicsResult
from rldf_ray.topics.bias_type import given_files
from rldf_ray.topics.writer import TopicWriter, wanted_by_kind


def topics(run: Run) -> TopicsResult:
    """Seeds and the model's own topics, without near-duplicates -> data/topics.parquet.

    Raises:
        StageError: they do not suffice for debates, PPO or evaluation, which nobody should find out
            after all debates.
    """
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
        for shortfall in _shortfalls(run.plan, by_type[name]):
            run.progress.say(f"  {name}: {shortfall}")
    _check_suffices(run.plan, gathered)
    used = tokens_since(run, before)
    return TopicsResult(
        topics=by_type,
        tokens=used["tokens"],
        paid_tokens=used["paid_tokens"],
        bias_type_files=given_files(run.plan.bias_types) or UNSET,
    )


def _shortfalls(plan: Plan, counts: Mapping[str, int]) -> Iterator[str]:
    """Of which kinds there are fewer topics than the plan wants."""
    wanted = wanted_by_kind(plan.topics.per_bias_type, plan.topics.judgement_share)
    for kind, number in wanted.items():
        if counts[kind] < number:
            yield (
                f"{counts[kind]} of {number} {KINDS[kind]}: in topics.tries={plan.topics.tries} "
                "rounds too few were written that are new and will do"
            )


def _check_suffices(plan: Plan, gathered: Sequence[Topic]) -> None:
    is_source = plan.debate.protocol in source_names()
    items = source_instances if is_source else protocol_named(plan.debate.protocol).items
    try:
        items(gathered, plan)
    except ValueError as error:
        raise StageError(str(error)) from error
    check_splits(prompts_table(gathered), plan)
