"""The debates stage: statements, refereed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from rldf_ray.protocols.multirole.collect import Collector, Seating, debaters_of, plan_debates
from rldf_ray.protocols.transcripts import StatementCounts, Transcripts
from rldf_ray.records import (
    STATEMENT_SCHEMA,
    Statement,
    topics_of,
)
from rldf_ray.referee.platt import Calibration
from rldf_ray.referee.prompted import PromptedReferee
from rldf_ray.referee.trained import TrainedReferee
from rldf_ray.referee.verdict import Referee
from rldf_ray.stages.run import Facts, Run, StageError, tokens_since


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
    collector = Collector(
        plan=run.plan,
        run_id=run.run_id,
        speaker=run.speakers.of("debate"),
        referee=referee(run),
        seated=seated,
    )
    counts = StatementCounts()

    def keep(place: int, statements: Sequence[Statement]) -> None:
        transcripts.keep(place, statements)
        counts.add(statements)
        run.speakers.journal.forget(planned[place].debate_id)

    with closing(
        Transcripts(run.folder.path("journal/debates.jsonl"), len(planned))
    ) as transcripts:
        with run.progress.bar("statements", number) as bar:
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


def referee(run: Run) -> Referee:
    """Who referees the run; a trained one has been fitted before."""
    model = run.speakers.of("referee")
    if run.plan.referee.kind == "prompted":
        return PromptedReferee(model, run.plan.seed, run.plan.referee.judgements == "checked")
    fitted = run.folder.read_json("referee/calibration.json")
    return TrainedReferee(
        model, Calibration(fitted["slope"], fitted["intercept"], fitted["statements"])
    )
