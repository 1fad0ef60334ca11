"""`rldf doctor` tells what a run would take, before anything is spent."""

from __future__ import annotations

import json
import sys
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

import rldf_ray
from rldf_ray import cli
from rldf_ray.plan import PlanError, load_plan
from rldf_ray.preflight.doctor import Check
from rldf_ray.preflight.estimate import estimate
from rldf_ray.storage.run_folder import RunFolder


@pytest.fixture(autouse=True)
def checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands in for the checks of the machine, which import every engine."""
    stand_in = SimpleNamespace(examine=lambda plan, out: [])
    monkeypatch.setitem(sys.modules, "rldf_ray.preflight.doctor", stand_in)
    monkeypatch.setattr(rldf_ray, "doctor", stand_in, raising=False)


def doctor(*words: str) -> Any:
    return CliRunner().invoke(cli.app, ["doctor", "smoke", *words])


def test_the_estimate_is_printed_with_unknown_times() -> None:
    result = doctor()
    assert result.exit_code == 0
    (debates,) = [line for line in result.output.splitlines() if line.strip().startswith("debates")]
    calls = {s.name: s.calls for s in estimate(load_plan("smoke"))}["debates"]
    assert f" {calls} " in debates and "unknown" in debates and "--like RUN" in result.output


def test_json_has_checks_stages_and_totals() -> None:
    found = json.loads(doctor("--json").output)
    stages = estimate(load_plan("smoke"))
    assert [s["name"] for s in found["estimate"]["stages"]] == [s.name for s in stages]
    assert found["estimate"]["total"]["calls"] == sum(s.calls for s in stages)
    assert found["estimate"]["total"]["seconds"] is None and found["checks"] == []


def test_times_come_from_an_earlier_run(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.write_text("plan.yaml", load_plan("smoke").to_yaml())
    for name in (
        "referee", "topics", "audit", "debates", "data", "sft", "reward", "ppo", "eval",
    ):  # fmt: skip
        run.finish(name, load_plan("smoke").digest(), {"seconds": 90.0, "peak_pss_gib": 1.0})
    result = doctor("--like", str(tmp_path))
    assert "unknown" not in result.output and "13.50" in result.output


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    result = doctor("--like", str(tmp_path))
    assert isinstance(result.exception, PlanError) and "no plan.yaml" in str(result.exception)


@pytest.mark.parametrize("failed", ["protocol", "bias types"])
def test_of_a_plan_that_cannot_be_held_the_checks_are_printed_and_no_estimate(
    failed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = Check(failed, ok=False, found="topics.judgement_share=0.5: allowed: 1")
    monkeypatch.setattr(rldf_ray.doctor, "examine", lambda plan, out: [check])  # type: ignore[attr-defined]
    overrides = {"protocol": "debate.protocol=evince", "bias types": "bias_types=[shoes]"}
    result = doctor("--set", overrides[failed])
    assert result.exit_code == 1 and "allowed: 1" in result.output
    assert "What the run would take" not in result.output
    assert json.loads(doctor("--json", "--set", overrides[failed]).output)["checks"]


@pytest.mark.parametrize(
    "options",
    [
        ["--study", "judges", "--nodes", "1x 8 cpus"],
        ["--study", "judges", "--like", "run"],
        ["--nodes", "1x 8 cpus", "--like", "run"],
        ["--out", "runs", "--nodes", "1x 8 cpus"],
    ],
)
def test_options_that_would_be_ignored_are_refused(options: list[str]) -> None:
    result = doctor(*options)
    assert result.exit_code == 2 and f"{options[0]} with {options[2]}" in result.output


def test_the_names_of_a_check_in_json_are_those_of_earlier_versions() -> None:
    assert [field.name for field in fields(Check)] == ["name", "ok", "found"]
