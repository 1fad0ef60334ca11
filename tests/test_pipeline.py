"""Which stages a command does, and what it forgets: no engine, no training."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldf_ray import pipeline
from rldf_ray.stages.run import StageError
from rldf_ray.storage.run_folder import RunFolder
from tests.fakes import plan_with

PROMPTED, TRAINED = plan_with(), plan_with("referee={kind: trained}")


def folder_with(path: Path, *finished: str) -> RunFolder:
    folder = RunFolder(path)
    for stage in finished:
        folder.finish(stage, "key", {})
    return folder


def test_a_trained_referee_is_fitted_before_the_first_stage_that_asks_it(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert pipeline._with_referee(TRAINED, folder, ("audit",)) == ["referee", "audit"]
    speaking = ("topics", "audit", "debates")
    assert pipeline._with_referee(TRAINED, folder, speaking) == ["referee", *speaking]
    assert pipeline._with_referee(TRAINED, folder, tuple(pipeline.STAGES))[0] == "referee"


def test_nobody_fits_a_referee_that_is_not_asked(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert pipeline._with_referee(TRAINED, folder, ("topics",)) == ["topics"]
    assert "referee" not in pipeline._with_referee(PROMPTED, folder, tuple(pipeline.STAGES))
    held = folder_with(tmp_path, "topics", "debates")
    assert pipeline._with_referee(TRAINED, held, ("topics", "debates", "data")) == [
        "topics",
        "debates",
        "data",
    ]


def test_later_stages_do_not_wait_for_audit_or_referee(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, "topics", "debates")
    pipeline._check_order(folder, ("data",))
    with pytest.raises(StageError, match="sft needs data"):
        pipeline._check_order(folder, ("sft",))


def test_another_audit_leaves_everything_else_as_it_is(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, *pipeline.STAGES)
    pipeline._forget(folder, "audit")
    left = [name for name in pipeline.STAGES if folder.manifest(name) is not None]
    assert left == [name for name in pipeline.STAGES if name != "audit"]


def test_a_stage_done_again_takes_what_depends_on_it_along(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, *pipeline.STAGES)
    pipeline._forget(folder, "data")
    left = [name for name in pipeline.STAGES if folder.manifest(name) is not None]
    assert left == ["referee", "topics", "audit", "debates"]
