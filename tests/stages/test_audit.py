"""What a run asks of its referee before the debates: a least AUC on each kind it debates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rldf_ray.console import Progress
from rldf_ray.stages import audit
from rldf_ray.stages.run import Run, StageError
from rldf_ray.storage.run_folder import RunFolder
from tests.fakes import plan_with
from tests.stages.test_stages import PLACEMENT, SPEAKERS

AUDITED = {"opinion": {"auc": 0.96}, "judgement": {"auc": 0.51}}


def run_with(tmp_path: Path, *settings: str) -> Run:
    plan = plan_with("referee.min_auc=0.8", *settings)
    return Run(
        plan=plan,
        folder=RunFolder(tmp_path),
        placement=PLACEMENT,
        progress=Progress(),
        run_id=plan.digest(),
        speakers=SPEAKERS,
    )


def check(run: Run, by_kind: Any = AUDITED) -> None:
    audit._check(run.plan, by_kind, run)


def test_a_referee_at_chance_on_scenes_stops_a_run_that_debates_scenes(tmp_path: Path) -> None:
    with pytest.raises(StageError, match=r"its AUC on scenes is 0\.51, referee.min_auc=0\.8"):
        check(run_with(tmp_path, "topics.judgement_share=0.5"))


def test_a_kind_that_is_not_debated_is_not_asked_for(tmp_path: Path) -> None:
    check(run_with(tmp_path, "topics.judgement_share=0"))


def test_a_referee_that_nothing_is_known_of_stops_a_run(tmp_path: Path) -> None:
    with pytest.raises(StageError, match="no AUC was measured"):
        check(run_with(tmp_path), {"opinion": None, "judgement": None})


def test_a_run_may_go_on_with_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check(run_with(tmp_path, "topics.judgement_share=0.5", "referee.below_min_auc=warn"))
    assert "warning: the referee fails the audit" in capsys.readouterr().out
