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

BOTH = {"opinion": 40, "judgement": 40}
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


def check(run: Run, by_kind: Any = AUDITED, numbers: Any = BOTH, file: str | None = None) -> None:
    summary = {"by_kind": by_kind, "file": file, "held_out": {"auc": 0.7}}
    audit._check(run, summary, numbers)


def test_a_referee_at_chance_on_scenes_stops_a_run_that_debates_scenes(tmp_path: Path) -> None:
    with pytest.raises(StageError, match=r"its AUC on scenes is 0\.51, referee.min_auc=0\.8"):
        check(run_with(tmp_path, "topics.judgement_share=0.5"))


def test_a_kind_that_is_not_debated_is_not_asked_for(tmp_path: Path) -> None:
    check(run_with(tmp_path, "topics.judgement_share=0"))


def test_a_referee_that_nothing_is_known_of_stops_a_run(tmp_path: Path) -> None:
    nothing = {"opinion": None, "judgement": None}
    with pytest.raises(StageError, match="no AUC was measured, as there are no labelled"):
        check(run_with(tmp_path), nothing, {})


@pytest.mark.parametrize("matched", [False, True])
def test_a_kind_that_is_debated_and_could_not_be_measured_stops_a_run(
    tmp_path: Path, matched: bool
) -> None:
    """Every verdict on a scene may fail to parse, whatever the referee makes of opinions."""
    spared = ["debate.answers=chosen", "referee.judgements=matched"] if matched else []
    run = run_with(tmp_path, "topics.judgement_share=0.5", *spared)
    by_kind = {"opinion": {"auc": 0.96}, "judgement": None}
    if matched:
        check(run, by_kind)
        return
    with pytest.raises(StageError, match="no AUC on scenes was measured"):
        check(run, by_kind)


def test_where_nobody_judges_there_is_nothing_to_measure(tmp_path: Path) -> None:
    matched = "debate.answers=chosen", "referee.judgements=matched", "topics.judgement_share=1"
    check(run_with(tmp_path, *matched), {"opinion": None, "judgement": None}, {})


def test_a_kind_without_labelled_statements_is_not_asked_for(tmp_path: Path) -> None:
    run = run_with(tmp_path, "topics.judgement_share=0.5")
    check(run, {"opinion": {"auc": 0.96}, "judgement": None}, {"opinion": 40})


@pytest.mark.parametrize("share", [0, 0.5, 1])
def test_given_statements_are_judged_as_a_whole(tmp_path: Path, share: float) -> None:
    run = run_with(tmp_path, f"topics.judgement_share={share}")
    with pytest.raises(StageError, match=r"its AUC is 0\.70, referee"):
        check(run, {"opinion": None, "judgement": None}, {"opinion": 9}, file="mine.jsonl")
    enough = run_with(tmp_path, f"topics.judgement_share={share}", "referee.min_auc=0.7")
    check(enough, {"opinion": None, "judgement": None}, {"opinion": 9}, file="mine.jsonl")


def test_a_run_may_go_on_with_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check(run_with(tmp_path, "topics.judgement_share=0.5", "referee.below_min_auc=warn"))
    assert "warning: the referee fails the audit" in capsys.readouterr().out
