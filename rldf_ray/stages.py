"""The stages of a run. Each reads what earlier ones wrote and writes its own objects, whole.

topics -> audit -> debates -> data -> sft -> reward -> ppo -> eval. Topics, debates and data are
here, the audit is in audit_stage.py, training in training_stages.py, the evaluation in
evaluation_stage.py, and the fit of a trained referee, before all of them, in referee_stage.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rldf_ray.console import Story
from rldf_ray.debate.agents import PromptedReferee, Referee
from rldf_ray.debate.collect import Collector, Seating, debaters_of, plan_debates
from rldf_ray.debate.platt import Calibration
from rldf_ray.debate.topics import TopicWriter
from rldf_ray.debate.trained_referee import TrainedReferee
from rldf_ray.debate.transcripts import StatementCounts, Transcripts
from rldf_ray.models.base import Usage
from rldf_ray.placement import Placement
from rldf_ray.plan import Plan
from rldf_ray.preference_data import PreferenceData, preference_data, write_data
from rldf_ray.records import (
    STATEMENT_SCHEMA,
    TOPIC_SCHEMA,
    Statement,
    statements_of,
    table_of,
    topics_of,
)
from rldf_ray.speakers import Speakers, policy_engines
from rldf_ray.storage import RunFolder

Facts = dict[str, Any]


class StageError(RuntimeError):
    """A stage cannot go on; the message says why and what to change."""


@dataclass
class Run:
    """What every stage is handed: plan, folder, placement, the terminal, and who speaks.

    `statements` is a file the referee is audited on instead of our own labelled set.
    """

    plan: Plan
    folder: RunFolder
    placement: Placement
    story: Story
    run_id: str
    speakers: Speakers
    statements: Path | None = None

    @contextmanager
    def policy_engines(
        self, folder: str, revision: str, dtype: str, lora_rank: int = 0
    ) -> Iterator[Any]:
        """The plan's vLLM engines on a model folder, which start while other work is done."""
        with policy_engines(
            self.plan, self.placement, self.story, folder, revision, dtype, lora_rank
        ) as pool:
            yield pool


def topics(run: Run) -> Facts:
    """Seeds and the model's own topics, without near-duplicates -> data/topics.parquet."""
    from rldf_ray.evaluate.contamination import texts_to_avoid

    before = run.speakers.usage, run.speakers.paid_usage
    writer = TopicWriter(run.plan, run.speakers.of("topics"), texts_to_avoid(run.plan))
    found, counts = run.speakers.run(writer.gather())
    run.folder.write_table("data/topics.parquet", table_of(found, TOPIC_SCHEMA))
    by_type: dict[str, Any] = {}
    for name in run.plan.bias_types:
        mine = [topic for topic in found if topic.bias_type == name]
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
    return {"topics": by_type, **tokens_since(run, before)}


def debates(run: Run, seated: Seating = debaters_of) -> Facts:
    """Multi-role debates, refereed -> data/transcripts.parquet.

    Args:
        seated: who takes part, where it is not the debaters of the paper.
    """
    before = run.speakers.usage, run.speakers.paid_usage
    try:
        planned = plan_debates(topics_of(run.folder.read_table("data/topics.parquet")), run.plan)
    except ValueError as error:
        raise StageError(str(error)) from error
    section = run.plan.debate
    number = len(planned) * section.debaters * section.rounds
    collector = Collector(run.plan, run.run_id, run.speakers.of("debate"), referee(run), seated)
    counts = StatementCounts()

    def keep(place: int, statements: Sequence[Statement]) -> None:
        transcripts.keep(place, statements)
        counts.add(statements)
        run.speakers.journal.forget(planned[place].debate_id)

    with closing(
        Transcripts(run.folder.path("journal/debates.jsonl"), len(planned))
    ) as transcripts:
        with run.story.bar("statements", number) as bar:
            run.speakers.run(collector.collect(planned, keep, bar.advance))
        run.folder.write_batches(
            "data/transcripts.parquet", STATEMENT_SCHEMA, transcripts.batches()
        )
    return {
        "debates": len(planned),
        "statements": counts.statements,
        "failures": dict(counts.failures),
        "label_sources": dict(counts.label_sources),
        **tokens_since(run, before),
    }


def data(run: Run) -> Facts:
    """Transcripts -> data/sft, pairs, prompts, with a dataset card."""
    statements = statements_of(run.folder.read_table("data/transcripts.parquet"))
    found = topics_of(run.folder.read_table("data/topics.parquet"))
    made = preference_data(statements, {topic.topic_id: topic for topic in found}, run.plan.data)
    _check_data(made)
    facts = write_data(run.folder, run.plan, made)
    for warning in facts["quality"]["warnings"]:
        run.story.say(f"  {warning}")
    return facts


def _check_data(made: PreferenceData) -> None:
    """Every later stage has something to work on."""
    for name in ("sft", "pairs"):
        if made.tables[name].num_rows == 0:
            dropped = {name: n for name, n in made.quality.dropped.items() if n}
            raise StageError(
                f"the debates gave no {name} data: every statement has the same label or none, or "
                f"was filtered out ({dropped or 'none was'}, of {made.quality.statements}); look "
                "at data/transcripts.parquet, and at referee.label_source, "
                "referee.threshold_kind, data.min_gap and data.filters in the plan"
            )
    splits = set(made.prompts["split"].to_pylist())
    for split in ("ppo", "eval"):
        if split not in splits:
            raise StageError(
                f"no topic fell into the {split!r} split: raise topics.per_bias_type or its share"
            )


def referee(run: Run) -> Referee:
    """Who referees the run; a trained one has been fitted before."""
    model = run.speakers.of("referee")
    if run.plan.referee.kind == "prompted":
        return PromptedReferee(model, run.plan.seed, run.plan.referee.judgements == "checked")
    fitted = run.folder.read_json("referee/calibration.json")
    return TrainedReferee(
        model, Calibration(fitted["slope"], fitted["intercept"], fitted["statements"])
    )


def tokens_since(run: Run, before: tuple[Usage, Usage]) -> Facts:
    """Tokens the speakers used since `before`, and those an endpoint charges for."""
    now = run.speakers.usage, run.speakers.paid_usage
    return {
        name: {kind: value - asdict(then)[kind] for kind, value in asdict(used).items()}
        for name, used, then in zip(("tokens", "paid_tokens"), now, before, strict=True)
    }
