"""Costs are what a run measured, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.scale_costs import CostsError, PpoMeasured, RunMeasured, costs_of
from benchmarks.scale_model import agreement, load_of, ppo_table


def _run(folder: Path, **debates: Any) -> Path:
    plan = (
        "debate: {debates: 10, rounds: 2, debaters: 3, in_flight: 10}\n"
        "engines: {max_num_seqs: 64, count: 1}\n"
    )
    audit = {"prompt": 3000, "cached": 2000, "generated": 10}
    tokens = {"prompt": 9000, "cached": 5000, "generated": 3000, **debates}
    stages = [
        {"name": "audit", "seconds": 2.0, "tokens": audit},
        {"name": "debates", "seconds": 20.0, "tokens": tokens},
    ]
    folder.mkdir()
    (folder / "plan.yaml").write_text(plan, encoding="utf-8")
    (folder / "report.json").write_text(json.dumps({"stages": stages}), encoding="utf-8")
    return folder


def test_reading_is_from_the_audit_and_the_rest_is_generating(tmp_path: Path) -> None:
    run = RunMeasured.of(_run(tmp_path / "run"))
    costs = costs_of(run, 50.0, tmp_path / "none.json")
    assert costs.read_s == pytest.approx(2.0 / 1000)
    assert costs.generate_s == pytest.approx((20.0 - 0.002 * 4000) / 3000)
    assert (costs.alone_s, costs.driver_s) == (0.02, None)


def test_the_run_itself_is_met_but_for_its_thin_end(tmp_path: Path) -> None:
    run = RunMeasured.of(_run(tmp_path / "run"))
    costs = costs_of(run, 250.0, tmp_path / "none.json")
    assert load_of(run, costs, 10, 10).share_alone == 1.0
    assert agreement(costs, run)["ratio"] == pytest.approx(1.0)


def test_debates_faster_than_their_reading_are_no_measurement(tmp_path: Path) -> None:
    run = RunMeasured.of(_run(tmp_path / "run", cached=0, prompt=90_000))
    with pytest.raises(CostsError, match="measure again"):
        costs_of(run, 50.0, tmp_path / "none.json")


def test_a_folder_without_a_report_is_named(tmp_path: Path) -> None:
    with pytest.raises(CostsError, match=r"report\.json does not exist"):
        RunMeasured.of(tmp_path)


def test_the_drivers_time_is_that_of_the_most_engines(tmp_path: Path) -> None:
    path = tmp_path / "orchestration.json"
    sizes = [{"driver_cpu_ms_a_statement": 2.0}, {"driver_cpu_ms_a_statement": 3.0}]
    path.write_text(json.dumps({"figures": {"sizes": sizes}}), encoding="utf-8")
    run = RunMeasured.of(_run(tmp_path / "run"))
    assert costs_of(run, 50.0, path).driver_s == pytest.approx(0.003)


def test_ppo_parts_and_what_limits_them(tmp_path: Path) -> None:
    path = tmp_path / "ppo.json"
    full = {
        "episodes_per_s": 0.2, "rollout_seconds": 10.0, "train_seconds": 29.0, "sync_seconds": 1.0,
    }  # fmt: skip
    path.write_text(json.dumps({"figures": {"full": full}}), encoding="utf-8")
    measured = PpoMeasured.of(path)
    assert measured == PpoMeasured(8, 10.0, 29.0, 1.0)
    rows = ppo_table(measured)
    assert rows[0]["episodes_per_s"] == pytest.approx(0.2)
    assert rows[0]["episodes_per_s_overlapped"] == pytest.approx(8 / 30)
    assert (rows[0]["what"], rows[-1]["what"]) == ("training", "weight sync")
    assert PpoMeasured.of(tmp_path / "none.json") is None
