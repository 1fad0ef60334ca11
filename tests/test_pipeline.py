"""Which stages a command does, and what it forgets: no engine, no training."""

from __future__ import annotations

from pathlib import Path

import pytest

from rldf_ray.stages.order import check_order, forget, with_referee
from rldf_ray.stages.run import StageError
from rldf_ray.stages.table import STAGES
from rldf_ray.storage.run_folder import RunFolder
from rldf_ray.storage.stages import PIPELINE, depending_on
from tests.fakes import plan_with

PROMPTED, TRAINED = plan_with(), plan_with("referee={kind: trained}")


def folder_with(path: Path, *finished: str) -> RunFolder:
    folder = RunFolder(path)
    for stage in finished:
        folder.finish(stage, "key", {})
    return folder


def test_a_trained_referee_is_fitted_before_the_first_stage_that_asks_it(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert with_referee(TRAINED, folder, ("audit",)) == ["referee", "audit"]
    speaking = ("topics", "audit", "debates")
    assert with_referee(TRAINED, folder, speaking) == ["referee", *speaking]
    assert with_referee(TRAINED, folder, tuple(PIPELINE))[0] == "referee"


def test_nobody_fits_a_referee_that_is_not_asked(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert with_referee(TRAINED, folder, ("topics",)) == ["topics"]
    assert "referee" not in with_referee(PROMPTED, folder, tuple(PIPELINE))
    held = folder_with(tmp_path, "topics", "debates")
    assert with_referee(TRAINED, held, ("topics", "debates", "data")) == [
        "topics",
        "debates",
        "data",
    ]


def test_later_stages_do_not_wait_for_audit_or_referee(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, "topics", "debates")
    check_order(folder, ("data",))
    with pytest.raises(StageError, match="sft needs data"):
        check_order(folder, ("sft",))


def test_another_audit_leaves_everything_else_as_it_is(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, *PIPELINE)
    forget(folder, ["audit"])
    left = [name for name in PIPELINE if folder.manifest(name) is not None]
    assert left == [name for name in PIPELINE if name != "audit"]


def test_a_stage_done_again_takes_what_depends_on_it_along(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, *PIPELINE)
    forget(folder, ["data"])
    left = [name for name in PIPELINE if folder.manifest(name) is not None]
    assert left == ["referee", "topics", "audit", "debates"]


def test_every_stage_of_the_table_has_a_function_and_stands_after_what_it_needs() -> None:
    assert list(STAGES) == list(PIPELINE)
    for place, stage in enumerate(PIPELINE.values()):
        assert {*stage.needs} <= {*list(PIPELINE)[:place]}


def test_a_topic_written_anew_changes_all_but_the_referee() -> None:
    assert depending_on(["topics"]) == [n for n in PIPELINE if n not in ("referee", "audit")]
    assert depending_on(["referee"]) == [n for n in PIPELINE if n != "topics"]
    assert depending_on(["topics", "audit", "debates"]) == list(PIPELINE)[1:]
