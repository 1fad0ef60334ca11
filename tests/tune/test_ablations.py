"""`rldf sweep`, its trials stood in for: what it prints, and how it ends."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rldf_ray import cli
from rldf_ray.apps.tune import ablations
from rldf_ray.apps.tune.grids import Sweep
from rldf_ray.apps.tune.sweep import SweepSettings
from rldf_ray.apps.tune.trial import OUT_OF_BUDGET
from rldf_ray.storage.run_folder import RunFolder

Rldf = Callable[..., tuple[int, str, str]]
WHY = "the budget of 5 USD (endpoint.budget_usd) does not cover the next call"


@pytest.fixture
def rldf(capsys: pytest.CaptureFixture[str]) -> Rldf:
    def run(*arguments: str) -> tuple[int, str, str]:
        status = 0
        try:
            cli.main(lambda: cli.app(list(arguments), prog_name="rldf"))
        except SystemExit as end:
            status = int(end.code or 0)
        out, err = capsys.readouterr()
        return status, out, err

    return run


def _carried_out(trials: int | None = None, why: str | None = None) -> Callable[..., None]:
    def carry_out(sweep: Sweep, settings: SweepSettings) -> None:
        for trial in sweep.trials[:trials]:
            result: dict[str, Any] = {
                "measured": {"data": {"overall": float(trial.plan.debate.rounds)}},
                "tokens": {"held": 2, "made": 1},
                "fetched": [],
                "seconds": 1.0,
            }
            settings.folder(trial.key).write_json("result.json", result)
        if why:
            RunFolder(settings.out).write_json(OUT_OF_BUDGET, {"why": why})

    return carry_out


COMMAND = ("sweep", "smoke", "--metric", "pairs", "--over", "rounds=1,2", "--out")


def test_json_is_the_sweeps_own_and_nothing_else(
    rldf: Rldf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ablations, "carry_out", _carried_out())
    monkeypatch.setattr(sys, "argv", ["rldf", *COMMAND])
    status, out, _ = rldf(*COMMAND, str(tmp_path), "--json")
    report = json.loads(out)
    assert status == 0 and report == RunFolder(tmp_path).read_json("sweep.json")
    assert report["axes"]["rounds"]["best"] == {"overall": 2}
    assert report["figures"] == ["overall.png"]


def test_a_budget_that_is_spent_is_status_3_with_its_reason_and_the_figures_there_are(
    rldf: Rldf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ablations, "carry_out", _carried_out(1, WHY))
    status, out, _ = rldf(*COMMAND, str(tmp_path))
    assert status == 3 and f"stopped: {WHY}" in out
    assert "rounds=2 has finished none of its 1 repeats: it has no figure, and is no best" in out
    assert RunFolder(tmp_path).read_json("sweep.json")["out_of_budget"] == WHY


def test_a_sweep_in_use_is_left_alone(
    rldf: Rldf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ablations, "carry_out", _carried_out())
    with RunFolder(tmp_path).locked():
        status, _, err = rldf(*COMMAND, str(tmp_path))
    assert status == 1 and "is in use by another rldf program" in err
    assert not (tmp_path / "sweep.json").exists()
