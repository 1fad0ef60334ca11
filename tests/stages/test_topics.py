"""The topics stage: it says what is missing before anybody debates."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rldf_ray.console import Progress
from rldf_ray.models.base import Usage
from rldf_ray.stages.debates import debates
from rldf_ray.stages.run import Run, StageError
from rldf_ray.stages.topics import topics
from rldf_ray.storage.results import as_manifest
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.topics.bias_type import SHIPPED, bias_type
from tests.fakes import RecordingModel, plan_with
from tests.stages.test_stages import PLACEMENT


def run_with(tmp_path: Path, *changes: str, model: RecordingModel | None = None) -> Run:
    plan = plan_with(*changes)
    speaker = model or RecordingModel()
    speakers: Any = SimpleNamespace(
        of=lambda part: speaker,
        run=asyncio.run,
        journal=SimpleNamespace(forget=lambda address: None),
        usage=Usage(),
        paid_usage=Usage(),
    )
    return Run(
        plan=plan,
        folder=RunFolder(tmp_path),
        placement=PLACEMENT,
        progress=Progress(),
        run_id="r",
        speakers=speakers,
    )


SEEDS = (
    "topics={per_bias_type: 14, seeds_per_bias_type: 14, tries: 1, debate_share: %s, ppo_share: %s}"
)


@pytest.mark.parametrize(
    ("shares", "changes", "message"),
    [
        ((0.49, 0.509), (), "no topic fell into the 'eval' split"),
        ((0.9, 0.001), (), "no topic fell into the 'ppo' split"),
        ((0.001, 0.5), (), "has no topic to debate"),
        ((0.001, 0.5), ("debate.protocol=mabrf",), "has no topic to debate"),
        ((0.5, 0.3), ("ppo.held_out_prompts=99",), "ppo.held_out_prompts=99 leaves none"),
    ],
)
def test_topics_that_do_not_suffice_are_told_before_the_debates(
    tmp_path: Path, shares: tuple[float, float], changes: tuple[str, ...], message: str
) -> None:
    run = run_with(tmp_path, "bias_types=[age]", SEEDS % shares, *changes)
    with pytest.raises(StageError, match=message):
        topics(run)
    assert (tmp_path / "data/topics.parquet").exists()


def test_a_run_without_ppo_needs_no_prompts_for_it(tmp_path: Path) -> None:
    run = run_with(
        tmp_path, "bias_types=[age]", SEEDS % (0.6, 0.001), "train.after=[dpo]", "seed=1"
    )
    assert topics(run).topics


def test_too_few_topics_are_told_by_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = RecordingModel(lambda request: "no JSON")
    run = run_with(
        tmp_path,
        "bias_types=[age]",
        "topics={per_bias_type: 40, seeds_per_bias_type: 24, tries: 2, debate_share: 0.4}",
        model=silent,
    )
    topics(run)
    said = " ".join(capsys.readouterr().out.split())
    assert "age: 12 of 20 opinions: in topics.tries=2 rounds too few were written" in said
    assert "age: 12 of 20 scenes" in said


def test_nothing_is_said_where_there_are_as_many_as_wanted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topics(run_with(tmp_path, "bias_types=[age]", SEEDS % (0.4, 0.3)))
    assert "too few" not in capsys.readouterr().out


def test_a_bias_type_of_ones_own_that_has_changed_is_not_debated(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    text = (SHIPPED / "age.yaml").read_text(encoding="utf-8")
    path.write_text(text, encoding="utf-8")
    changes = (f"bias_types=['{path}']", SEEDS % (0.5, 0.2), "referee.kind=prompted")
    run = run_with(tmp_path / "run", *changes)
    manifest = as_manifest(topics(run))
    assert list(manifest["bias_type_files"]) == [str(path)]
    run.folder.finish("topics", "key", manifest)
    debates(run)
    path.write_text(text + "\n", encoding="utf-8")
    bias_type.cache_clear()
    with pytest.raises(StageError, match=rf"bias_types: {path} has changed since this run's"):
        debates(run)
    source = plan_with(*changes, "debate.protocol=mabrf")
    with pytest.raises(StageError, match=rf"bias_types: {path} has changed since this run's"):
        debates(replace(run, plan=source))
    path.write_text(text, encoding="utf-8")
    debates(run)


def test_shipped_bias_types_are_in_no_manifest(tmp_path: Path) -> None:
    found = topics(run_with(tmp_path, "bias_types=[age]", SEEDS % (0.4, 0.3)))
    assert "bias_type_files" not in as_manifest(found)
