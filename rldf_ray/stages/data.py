"""The data stage: statements become SFT rows, pairs and prompts."""

from __future__ import annotations

from rldf_ray.dataset.judged import judged_statements
from rldf_ray.dataset.preference_data import PreferenceData, preference_data, write_data
from rldf_ray.plan import Plan
from rldf_ray.records import TOPIC_SCHEMA, topics_of
from rldf_ray.stages.run import Run, StageError
from rldf_ray.storage.results import DataResult


def data(run: Run) -> DataResult:
    """Transcripts -> data/sft, pairs, prompts, with a dataset card."""
    statements = list(judged_statements(run.folder))
    topics = topics_of(run.folder.read_table("data/topics.parquet", TOPIC_SCHEMA))
    made = preference_data(statements, {topic.topic_id: topic for topic in topics}, run.plan.data)
    _check_data(made, run.plan)
    result = write_data(run.folder, run.plan, made)
    for warning in made.quality.warnings():
        run.progress.say(f"  {warning}")
    return result


def _check_data(made: PreferenceData, plan: Plan) -> None:
    """Every later stage has something to work on."""
    pairs = made.quality.lengths["chosen"]
    for name, rows in (("sft", made.examples), ("pairs", pairs.n if pairs else 0)):
        if rows == 0:
            dropped = {name: n for name, n in made.quality.dropped.items() if n}
            raise StageError(
                f"the debates gave no {name} data: every statement has the same label or none, or "
                f"was filtered out ({dropped or 'none was'}, of {made.quality.statements}); look "
                "at data/transcripts.parquet, and at referee.label_source, "
                "referee.threshold_kind, data.min_gap and data.filters in the plan"
            )
    splits = set(made.prompts["split"].to_pylist())
    for split in (*(("ppo",) if "ppo" in plan.train.after else ()), "eval"):
        if split not in splits:
            raise StageError(
                f"no topic fell into the {split!r} split: raise topics.per_bias_type or its share"
            )
