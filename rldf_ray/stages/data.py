"""The data stage: statements become SFT rows, pairs and prompts."""

from __future__ import annotations

import msgspec
import pyarrow as pa

from rldf_ray.dataset.judged import judged_statements
from rldf_ray.dataset.preference_data import (
    PreferenceData,
    describe_data,
    preference_data,
    prompts_table,
    write_data,
)
from rldf_ray.dataset.source_data import SourceData, source_data
from rldf_ray.plan import Plan
from rldf_ray.plan.saved import another_run
from rldf_ray.protocols.known import source_named
from rldf_ray.protocols.source import source_settings
from rldf_ray.records import PAIR_SCHEMA, SFT_SCHEMA, TOPIC_SCHEMA, topics_of
from rldf_ray.stages.run import Run, StageError
from rldf_ray.stages.source import SOURCE, instances
from rldf_ray.storage.results import DataResult, DebatesResult, if_recorded, stage_result
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.train.ppo.prompts import Prompts


def data(run: Run) -> DataResult:
    """Transcripts, or a source's training rows -> data/sft, pairs, prompts, with a card."""
    debated = stage_result(run.folder, DebatesResult)
    source = debated and if_recorded(debated.source)
    if source:
        return _from_source(run, source)
    statements = list(judged_statements(run.folder))
    topics = topics_of(run.folder.read_table("data/topics.parquet", TOPIC_SCHEMA))
    made = preference_data(statements, {topic.topic_id: topic for topic in topics}, run.plan.data)
    _check_data(made, run.plan)
    result = write_data(run.folder, run.plan, made)
    for warning in made.quality.warnings():
        run.progress.say(f"  {warning}")
    return result


def _from_source(run: Run, name: str) -> DataResult:
    """The training rows of what the debates stage held of a source."""
    held = RunFolder(run.folder.fetched(SOURCE))
    kinds = source_named(name).training_rows(held, source_settings(run.plan), run.plan.seed)
    made = source_data(kinds, {one.debate_id: one for one in instances(run)}, run.plan.data)
    _check_rows(made, name)
    topics = topics_of(run.folder.read_table("data/topics.parquet", TOPIC_SCHEMA))
    prompts = prompts_table(topics)
    check_splits(prompts, run.plan)
    tables = {"sft": (made.sft, SFT_SCHEMA), "pairs": (made.pairs, PAIR_SCHEMA)}
    for table, (rows, schema) in tables.items():
        run.folder.write_table(
            f"data/{table}.parquet", pa.Table.from_pylist(list(rows), schema=schema)
        )
    run.folder.write_table("data/prompts.parquet", prompts)
    result = describe_data(run.folder, run.plan, made.quality)
    for warning in made.quality.warnings():
        run.progress.say(f"  {warning}")
    return msgspec.structs.replace(
        result, rows={kind: dict(counts) for kind, counts in made.rows.items()}
    )


def _check_rows(made: SourceData, name: str) -> None:
    for kind, rows in (("sft", made.sft), ("pairs", made.pairs)):
        if not rows:
            dropped = {name: n for name, n in made.quality.dropped.items() if n}
            raise StageError(
                f"{name} gave no {kind} rows, or they were filtered out ({dropped or 'none was'}, "
                f"of {made.quality.statements} texts); look at source/data/outcomes.parquet, and "
                + another_run("other debate.settings, debate.debates or data.filters")
            )


def _check_data(made: PreferenceData, plan: Plan) -> None:
    """Every later stage has something to work on."""
    pairs = made.quality.lengths["chosen"]
    for name, rows in (("sft", made.examples), ("pairs", pairs.n if pairs else 0)):
        if rows == 0:
            dropped = {name: n for name, n in made.quality.dropped.items() if n}
            raise StageError(
                f"the debates gave no {name} data: every statement has the same label or none, or "
                f"was filtered out ({dropped or 'none was'}, of {made.quality.statements}); look "
                "at data/transcripts.parquet, and "
                + another_run(
                    "another referee.label_source, referee.threshold_kind, data.min_gap or "
                    "data.filters"
                )
            )
    check_splits(made.prompts, plan)


def check_splits(prompts: pa.Table, plan: Plan) -> None:
    """There are prompts for PPO, where the plan has it, and for evaluation.

    Raises:
        StageError: there are none, or all of PPO's would be held out.
    """
    splits = set(prompts["split"].to_pylist())
    for split in (*(("ppo",) if "ppo" in plan.train.after else ()), "eval"):
        if split not in splits:
            raise StageError(
                f"no topic fell into the {split!r} split: "
                + another_run("a higher topics.per_bias_type, or a larger share for it")
            )
    if "ppo" in plan.train.after:
        columns = prompts.select(["topic_id", "split"]).to_pylist()
        try:
            Prompts.of(columns, plan.ppo.held_out_prompts)
        except ValueError as error:
            raise StageError(str(error)) from error
