"""A prompt that is too long is one statement's failure: the run's debates and its audit go on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rldf_ray.console import Progress
from rldf_ray.models.base import ChatRequest, Completion, PromptTooLongError, Usage
from rldf_ray.records import TOPIC_SCHEMA, Context, Statement, statements_of, table_of
from rldf_ray.stages.debates import debates
from rldf_ray.stages.refereeing import referee_of
from rldf_ray.stages.run import Run
from rldf_ray.storage.run_folder import RunFolder
from tests.fakes import RecordingModel, opinion, plan_with
from tests.stages.test_stages import PLACEMENT


class Short(RecordingModel):
    """Reads no prompt of the second round of one debate."""

    def __init__(self, *parts: str) -> None:
        super().__init__()
        self._parts = parts

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        if any(part in request.address for part in self._parts):
            raise PromptTooLongError("a prompt of 900 tokens does not fit")
        return await super().complete(request)


def run_with(tmp_path: Path, model: RecordingModel, *changes: str) -> Run:
    plan = plan_with("bias_types=[age]", "debate.debates=3", *changes)
    speakers: Any = SimpleNamespace(
        of=lambda part: model,
        run=asyncio.run,
        journal=SimpleNamespace(forget=lambda address: None),
        usage=Usage(),
        paid_usage=Usage(),
    )
    folder = RunFolder(tmp_path)
    topics = [opinion(number) for number in range(3)]
    folder.write_table("data/topics.parquet", table_of(topics, TOPIC_SCHEMA))
    return Run(
        plan=plan,
        folder=folder,
        placement=PLACEMENT,
        progress=Progress(),
        run_id="r",
        speakers=speakers,
    )


def held(run: Run) -> list[Statement]:
    debates(run)
    return statements_of(run.folder.read_table("data/transcripts.parquet"))


@pytest.mark.parametrize("seats", [False, True])
def test_a_debaters_prompt_that_is_too_long_is_a_statement_it_did_not_make(
    tmp_path: Path, seats: bool, caplog: pytest.LogCaptureFixture
) -> None:
    changes = ["debate.seats=['vllm:a', 'vllm:a', 'vllm:a']"] if seats else []
    model = Short("age-o1-0/round/2/role")
    rows = held(run_with(tmp_path, model, "referee.kind=prompted", *changes))
    silent = [row for row in rows if not row.text]
    assert {(row.debate_id, row.round) for row in silent} == {("age-o1-0", 2)}
    assert len(rows) == 18 and len(silent) == 3
    for row in silent:
        assert row.score is row.rank is row.label is None
        assert row.failure == "the debater said nothing: a prompt of 900 tokens does not fit"
    assert "such items count as failed, and the others go on" in caplog.text


@pytest.mark.parametrize("kind", ["prompted", "debate", "meta, pool: ['vllm:a', 'vllm:b']"])
def test_a_referees_prompt_that_is_too_long_leaves_a_statement_without_a_score(
    tmp_path: Path, kind: str
) -> None:
    model = Short("age-o1-0/round/2/score/0", "age-o1-0/round/2/debate/0", "round/2/meta/0")
    rows = held(run_with(tmp_path, model, f"referee={{kind: {kind}}}"))
    failed = [row for row in rows if row.score is None]
    assert failed and {(row.round, row.role) for row in failed} == {(2, 0)}
    assert all(row.text and row.failure for row in failed)


def test_an_audit_is_of_the_statements_that_can_be_read(tmp_path: Path) -> None:
    run = run_with(tmp_path, Short("/score/1"), "referee.kind=prompted")
    verdicts = asyncio.run(referee_of(run).judge(Context("c"), ["a", "b"], "audit/x"))
    assert [v.score is None for v in verdicts] == [False, True]
