"""The debates stage: a protocol's statements, refereed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

from rldf_ray.models.one_prompt_refused import OnePromptRefused
from rldf_ray.protocols.hold import hold_all
from rldf_ray.protocols.known import protocol_named, source_names
from rldf_ray.protocols.seam import Cast, StatementProtocol
from rldf_ray.protocols.transcripts import ENDED_DEBATES, StatementCounts, Transcripts
from rldf_ray.records import STATEMENT_SCHEMA, TOPIC_SCHEMA, Statement, topics_of
from rldf_ray.stages.refereeing import referee_of
from rldf_ray.stages.run import Run, StageError, tokens_since
from rldf_ray.stages.source import held_source
from rldf_ray.storage.results import DebatesResult, TopicsResult, if_recorded, stage_result
from rldf_ray.topics.bias_type import given_files


def debates(run: Run, protocol: StatementProtocol | None = None) -> DebatesResult:
    """Every item of the plan's protocol, refereed -> data/transcripts.parquet.

    A protocol that gives training rows of its own is held as it is studied -> source/data.

    Args:
        protocol: instead of the plan's own.

    Raises:
        StageError: the topics do not suffice for the protocol, or a bias type's file has changed
            since they were gathered.
    """
    _check_bias_types(run)
    if protocol is None and run.plan.debate.protocol in source_names():
        return held_source(run)
    before = run.speakers.usage, run.speakers.paid_usage
    protocol = protocol or protocol_named(run.plan.debate.protocol)
    try:
        items = protocol.items(
            topics_of(run.folder.read_table("data/topics.parquet", TOPIC_SCHEMA)), run.plan
        )
    except ValueError as error:
        raise StageError(str(error)) from error
    counts = StatementCounts()

    def keep(place: int, statements: Sequence[Statement]) -> None:
        transcripts.keep(place, statements)
        counts.add(statements)
        run.speakers.journal.forget(items[place].address)

    with closing(Transcripts(run.folder.path(ENDED_DEBATES), len(items))) as transcripts:
        number = len(items) * protocol.statements_per_item(run.plan)
        with run.progress.bar("statements", number) as bar:
            cast = _cast(run, protocol, bar.advance)
            run.speakers.run(hold_all(protocol, items, cast, keep))
        run.folder.write_batches(
            "data/transcripts.parquet", STATEMENT_SCHEMA, transcripts.batches()
        )
    used = tokens_since(run, before)
    return DebatesResult(
        debates=len(items),
        statements=counts.statements,
        failures=dict(counts.failures),
        label_sources=dict(counts.label_sources),
        tokens=used["tokens"],
        paid_tokens=used["paid_tokens"],
    )


def _check_bias_types(run: Run) -> None:
    """The identities that debate are of the files that the topics came from.

    Raises:
        StageError: a file has changed since.
    """
    gathered = stage_result(run.folder, TopicsResult)
    before = (gathered and if_recorded(gathered.bias_type_files)) or {}
    now = given_files(run.plan.bias_types)
    if changed := [name for name, known in before.items() if now.get(name) != known]:
        raise StageError(
            f"bias_types: {', '.join(changed)} has changed since this run's topics were gathered: "
            "put it back, or begin another run (another --out)"
        )


def _cast(run: Run, protocol: StatementProtocol, on_statements: Callable[[int], None]) -> Cast:
    """The models of a role, or of its seats where each has its own.

    A prompt that is too long leaves one statement unsaid, and ends no other debate.
    """
    seats = () if run.plan.debate.seats is None else run.plan.debate_parts()
    return Cast(
        plan=run.plan,
        run_id=run.run_id,
        models={
            role: OnePromptRefused(run.speakers.of(part))
            for role, part in protocol.ROLES.items()
            if part != "debate" or not seats
        },
        referee=referee_of(run),
        seats=[OnePromptRefused(run.speakers.of(seat)) for seat in seats],
        on_statements=on_statements,
    )
